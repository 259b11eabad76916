"""House rules on imports: their direction, the few lazy ones, and what `import jitgrad` must not load."""

import ast
import subprocess
import sys

# (module, package imported inside one of its functions): why it waits until it is used.
LAZY_IMPORTS: dict[tuple[str, str], str] = {
    ("jitgrad.cli.doctor", "jitgrad.codegen"): "the doctor works where code generation does not load",
    ("jitgrad.backend", "jitgrad.codegen"): "loads Numba, which small eager scripts never need",
    ("jitgrad.codegen.compile", "jitgrad.codegen.cuda"): "only graphs for a CUDA device need it",
    ("jitgrad.codegen.cuda.runtime.gpu", "jitgrad.codegen.cuda.runtime.hardware"): "or the simulator, as configured",
    ("jitgrad.codegen.cuda.runtime.gpu", "jitgrad.codegen.cuda.runtime.simulator"): "or the hardware, as configured",
    ("jitgrad.codegen.cuda.runtime.hardware", "cuda"): "packages of an extra, loaded when CUDA is asked for",
    ("jitgrad.codegen.cuda.runtime.hardware", "cupy"): "of an extra, loaded by the first transform or factorisation",
    ("jitgrad.codegen.cuda.runtime.hardware", "cupy_backends"): "of an extra, loaded by the first matrix product",
    ("jitgrad.codegen.cuda.runtime.hardware", "cupyx"): "of an extra, loaded by the first transform or factorisation",
    ("jitgrad.codegen.cpu.threads", "importlib.metadata"): "where TBB's wheel has put it elsewhere than wheels do",
    ("jitgrad.codegen.cpu.blas", "scipy"): "only where SciPy's wheel has no OpenBLAS to open directly",
    ("jitgrad.export", "jitgrad.export.exporting"): "only exporting needs the printer, the parser and the rest",
    ("jitgrad.export", "jitgrad.export.program"): "only reading a program needs the parser and the rest",
    ("jitgrad.utils.data.loader", "jitgrad.utils.data.worker_pool"): "multiprocessing, for loaders with workers alone",
    ("jitgrad.conversions", "jitgrad.array_api"): "few scripts use the standard's names",
    ("jitgrad.dump", "jitgrad.dump.afterwards"): "only dumps need it, and code generation with it",
    ("jitgrad.codegen.cuda.toolchain", "numba"): "numba-cuda is an extra, and needed where kernels are compiled alone",
    ("jitgrad.dump", "jitgrad.dump.writer"): "only dumps need the printer and the pictures",
    ("jitgrad.dump", "jitgrad.ir"): "pictures; only notebooks and dumps draw",
    ("jitgrad.dump.html_page", "jitgrad.dump.execution"): "loads code generation; graphs alone have pages too",
    ("jitgrad.dump.writer", "jitgrad.dump.machine_code"): "loads Numba, which is there once something was compiled",
    ("jitgrad.functions.einsum", "opt_einsum"): "only products of three tensors and more need an order",
    ("jitgrad.ir.picture", "networkx"): "only pictures need it",
    ("jitgrad.ir.lapack", "scipy"): "only linear algebra needs it",
    ("jitgrad.ir.ops.fourier", "scipy"): "only transforms need it",
    ("jitgrad.ir.special", "scipy"): "only special functions need it, and it takes longer to load than jitgrad",
    ("jitgrad.serialization", "safetensors"): "only saving and loading need it",
    ("jitgrad.train.logs", "tensorboard"): "a package of an extra, for those who log to it",
    ("jitgrad.train.plots", "matplotlib"): "a package of an extra, for those who draw",
    ("jitgrad.vision.pictures", "PIL"): "a package of an extra; tensors are transformed without it",
}

HEAVY = ("numba", "llvmlite", "scipy", "networkx", "matplotlib", "cupy", "torch")


def test_imports_inside_functions_are_declared(library, report):
    report(
        [
            source.at(node, f"{source.module} imports {name} inside a function; import it at the top, or "
                            f"declare it in LAZY_IMPORTS of tests/architecture/test_imports.py")
            for source in library
            for function in source.functions
            for node in ast.walk(function)
            for name in _imported(node, source)
            if not _is_declared(source.module, name)
        ]
    )  # fmt: skip


def test_lazy_imports_still_exist(library):
    used = {
        (source.module, declared)
        for source in library
        for function in source.functions
        for node in ast.walk(function)
        for name in _imported(node, source)
        for declared in _prefixes(name)
    }
    assert not set(LAZY_IMPORTS) - used, "LAZY_IMPORTS declares places that are no more"


def test_direction(library, report):
    allowed = {"jitgrad.ir": ("jitgrad.ir",), "jitgrad.codegen": ("jitgrad.ir", "jitgrad.codegen")}
    report(
        [
            source.at(node, f"{package} must not import {name}")
            for source in library
            for package, targets in allowed.items()
            if f"{source.module}.".startswith(f"{package}.")
            for node in ast.walk(source.tree)
            for name in _imported(node, source)
            if name.split(".")[0] == "jitgrad" and not f"{name}.".startswith(tuple(f"{t}." for t in targets))
        ]
    )


def test_llvmlite_is_imported_by_one_file(library, report):
    report(
        [
            source.at(node, f"{source.module} imports {name}; `codegen/cpu/llvm_ir` is what emitters write LLVM with")
            for source in library
            if source.module not in ("jitgrad.codegen.cpu.target", "jitgrad.cli.doctor")
            for node in ast.walk(source.tree)
            for name in _imported(node, source)
            if name.split(".")[0] == "llvmlite"
        ]
    )


def test_import_jitgrad_loads_nothing_heavy(tmp_path):
    code = f"import sys, jitgrad; print(*sorted(set({HEAVY!r}).intersection(sys.modules)))"
    loaded = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True).split()
    assert loaded == [], f"`import jitgrad` loads {loaded}; `python -X importtime` shows through what"


def _imported(node, source):
    """The absolute dotted names that an import statement, or `import_module("...")`, asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(node, source)
        names = [f"{base}.{alias.name}" for alias in node.names]
        return names if base == "jitgrad" else [base]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = getattr(node.func, "attr", getattr(node.func, "id", None))
        return [node.args[0].value] if called in ("import_module", "__import__") else []
    return []


def _absolute(node, source):
    if not node.level:
        return node.module
    is_package = source.path.name == "__init__.py"
    parents = source.module.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
    return ".".join([*parents, *([node.module] if node.module else [])])


def _prefixes(name):
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _is_declared(module, name):
    return any((module, prefix) in LAZY_IMPORTS for prefix in _prefixes(name))
