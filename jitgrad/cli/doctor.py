"""`python -m jitgrad doctor`: what jitgrad finds on this machine, and what is missing."""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

import jitgrad
from jitgrad.ir.config import config

from .report import Report, amount, table

OK, NOTE, FAULT = "ok", "note", "fault"
_SIGNS: Final = {OK: "+", NOTE: "-", FAULT: "!"}

# (distribution, what it is for, whether jitgrad can't do without it)
_PACKAGES: Final = (
    ("numpy", "arrays", True),
    ("scipy", "LAPACK, FFT, special functions", True),
    ("numba", "code generation", True),
    ("llvmlite", "code generation", True),
    ("ml_dtypes", "bfloat16", True),
    ("networkx", "graphs as networkx objects", True),
    ("safetensors", "files of weights", True),
    ("tqdm", "progress of downloads and examples", True),
    ("scipy-openblas32", "matrix products", False),
    ("tbb", "threads for several callers at once, and after fork", False),
    ("numba-cuda", "CUDA kernels", False),
    ("cuda-core", "CUDA kernels", False),
    ("torch", "the tests' oracle", False),
)


@dataclass(frozen=True)
class Finding:
    """One line of the answer: `status` is "ok", "note" (works, but not all of it or not as well) or "fault"."""

    part: str
    name: str
    status: str
    found: str
    hint: str = ""


def doctor(args: argparse.Namespace) -> Report:
    """All findings; exit code 1 if one is a fault."""
    findings = [*_software(), *_machine(), *_guarded("code", "code generation", _code_generation)]
    findings += _guarded("code", "BLAS", _blas)
    findings += _guarded("code", "threads", _threads)
    findings += _guarded("code", "kernel cache", _cache)
    findings += _guarded("GPU", "CUDA", _gpu)
    if not args.quick:
        findings += _guarded("trial", "compile and run", _trial)
    faults = sum(f.status == FAULT for f in findings)
    data = {"jitgrad": jitgrad.__version__, "healthy": not faults, "findings": [asdict(f) for f in findings]}
    return Report(_text(findings, faults), data, exit_code=1 if faults else 0)


def _text(findings: list[Finding], faults: int) -> str:
    lines = [f"jitgrad {jitgrad.__version__}"]
    for part in dict.fromkeys(f.part for f in findings):
        rows = [(_SIGNS[f.status], f.name, f.found) for f in findings if f.part == part]
        lines += ["", part, table(rows)]
    hints = list(dict.fromkeys(f"{f.name}: {f.hint}" for f in findings if f.hint))
    if hints:
        lines += ["", "To get what is missing", *(f"  {hint}" for hint in hints)]
    verdict = "all that is needed is there" if not faults else f"{faults} fault{'s' if faults > 1 else ''}"
    return "\n".join([*lines, "", f"{verdict}  (+ there, - missing or slower, ! wrong)"])


def _guarded(part: str, name: str, find: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What `find` finds, or that it fails: the doctor works where nothing else does."""
    try:
        return list(find())
    except Exception as error:
        return [Finding(part, name, FAULT, f"{type(error).__name__}: {' '.join(str(error).split())}")]


def _software() -> Iterator[Finding]:
    supported = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield Finding(
        "software", "Python", OK if supported else FAULT, f"{platform.python_version()}, {sys.executable}",
        "" if supported else "Python 3.11 to 3.13 is needed",
    )  # fmt: skip
    for name, purpose, needed in _PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name in ("numba-cuda", "cuda-core", "torch"):
                continue  # the part "GPU" says what is missing there; the oracle is for developers
            hint = f"pip install {name}   ({purpose})"
            yield Finding("software", name, FAULT if needed else NOTE, f"missing: {purpose}", hint)
        else:
            yield Finding("software", name, OK, version)


def _machine() -> Iterator[Finding]:
    yield Finding("machine", "system", OK, f"{platform.system()} {platform.release()}, {platform.machine()}")
    yield Finding("machine", "memory", OK, _memory())


def _memory() -> str:
    try:
        return amount(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return "unknown"


def _code_generation() -> Iterator[Finding]:
    from jitgrad.codegen.cpu import target  # loads llvmlite

    host = target.host()
    yield Finding("machine", "processor", OK, f"{host.cpu}, {os.cpu_count()} cores")
    wide = "" if host.vector_bits >= 256 or host.masked_vectors else " (older or other processor: narrow vectors)"
    masks = "masked" if host.masked_vectors else "no masks"
    halves = "float16 by instructions" if host.half_conversions else "float16 in software"
    yield Finding("machine", "vectors", OK, f"{host.vector_bits} bits, {masks}, {halves}{wide}")
    yield Finding("code", "LLVM", OK, ".".join(map(str, target.llvm.llvm_version_info)))


def _blas() -> Iterator[Finding]:
    from jitgrad.codegen.cpu import blas

    own, any_ = blas.own_openblas(), blas.openblas()
    if own is not None:
        yield Finding("code", "BLAS", OK, f"own: {_openblas_version(own)}")
    elif any_ is not None:
        yield Finding(
            "code", "BLAS", NOTE, f"SciPy's: {_openblas_version(any_)}",
            "pip install scipy-openblas32   (a copy of our own needs no switching of threads)",
        )  # fmt: skip
    else:
        yield Finding("code", "BLAS", NOTE, "what SciPy was built with", "pip install scipy-openblas32")


def _openblas_version(library: ctypes.CDLL) -> str:
    describe = getattr(library, "scipy_openblas_get_config", None)
    if describe is None:
        return "OpenBLAS"
    describe.restype = ctypes.c_char_p
    return str(describe().decode())


def _threads() -> Iterator[Finding]:
    from jitgrad.codegen.cpu.threads import available_cores, pool

    entry = pool.parallel_for
    count = f"{pool.num_threads} (cores this process may use: {available_cores()})"
    if config.num_threads:
        count += ", by JITGRAD_NUM_THREADS"
    if not entry:
        yield Finding("code", "threads", NOTE, "no pool: kernels run on the calling thread", "pip install tbb")
    elif pool.lock is not None:
        found = f"{count}, Numba's simple pool: one caller at a time, not after fork"
        yield Finding("code", "threads", NOTE, found, "pip install tbb")
    else:
        yield Finding("code", "threads", OK, f"{count}, TBB")


def _cache() -> Iterator[Finding]:
    from jitgrad.codegen.cache import disk_cache

    cache = disk_cache()
    if cache.folder is None:
        yield Finding("code", "kernel cache", NOTE, "none: JITGRAD_CACHE_DIR is empty", "unset JITGRAD_CACHE_DIR")
        return
    parent = next(p for p in (cache.folder, *cache.folder.parents) if p.exists())
    used = amount(sum(e.nbytes for e in cache.entries()))
    if os.access(parent, os.W_OK):
        yield Finding("code", "kernel cache", OK, f"{cache.folder}, {used}")
    else:
        hint = "set JITGRAD_CACHE_DIR to a folder that can be written to"
        yield Finding("code", "kernel cache", NOTE, f"{cache.folder} can't be written to", hint)


def _gpu() -> Iterator[Finding]:
    if jitgrad.cuda.is_available():
        for k in range(jitgrad.cuda.device_count()):
            describe: Any = getattr(jitgrad.cuda, "get_device_name", lambda k: "CUDA device")
            yield Finding("GPU", f"cuda:{k}", OK, str(describe(k)))
        return
    missing = [n for n in ("numba_cuda", "cupy", "cuda.core") if not _is_installed(n)]
    driver = _cuda_driver()
    if driver is None:
        yield Finding("GPU", "CUDA", NOTE, "no NVIDIA driver: tensors live on the CPU")
    elif missing:
        hint = f"pip install 'jitgrad[cuda{driver // 1000}]'"
        yield Finding(
            "GPU", "CUDA", NOTE, f"driver for CUDA {_cuda(driver)}; not installed: {', '.join(missing)}", hint
        )
    else:
        yield Finding("GPU", "CUDA", NOTE, f"driver for CUDA {_cuda(driver)}, but no device that can be used")


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _cuda_driver() -> int | None:
    """The CUDA version of the NVIDIA driver, as 1000 * major + 10 * minor; `None` without one."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    return None if library.cuDriverGetVersion(ctypes.byref(version)) else version.value


def _trial() -> Iterator[Finding]:
    """Compile a function, and compare with NumPy."""
    x = np.linspace(-3, 3, 10_000, dtype=np.float32).reshape(100, 100)
    f = jitgrad.compile(lambda t, w: jitgrad.softmax(t @ w, 1).tanh())
    start = time.perf_counter()
    got = f(jitgrad.from_numpy(x), jitgrad.from_numpy(x)).numpy()
    first = time.perf_counter() - start
    product = x.astype(np.float64) @ x
    e = np.exp(product - product.max(1, keepdims=True))
    far = float(np.abs(got - np.tanh(e / e.sum(1, keepdims=True))).max())
    (spec,) = f.explain().specialisations
    stats = spec.executable.stats
    is_right = far < 1e-4  # products of 100 terms up to 9 in float32, exponentiated
    found = (
        f"{stats.kernels} kernels, {stats.compiled} compiled now, {1e3 * first:.0f} ms with loading; "
        f"largest difference to NumPy {far:.1e}"
    )
    yield Finding(
        "trial", "compile and run", OK if is_right else FAULT, found, "" if is_right else "report this, please"
    )
