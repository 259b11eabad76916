"""Compiled kernels kept in memory and on disk: reuse, damage, bounds, several processes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from codegen.kernels import pointwise

from jitgrad.codegen import cache
from jitgrad.codegen.cache import COUNTERS, DiskCache
from jitgrad.codegen.cpu import abi, code_maker, kernels, llvm_ir
from jitgrad.codegen.cpu.code_maker import CodeMaker
from jitgrad.codegen.cpu.threads import pool
from jitgrad.ir import dtypes, scalar
from jitgrad.ir.config import config

F32 = dtypes.float32
_FACTORS = iter(range(1, 10**6))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of its own for the test."""
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    return tmp_path / "cache"


def fresh_kernel():
    """A kernel that no other test has."""
    factor = next(_FACTORS) + 0.125
    return pointwise([F32], lambda x: x * factor), factor


def result(native):
    x, out = np.ones(20, "f"), np.zeros(20, "f")
    abi.call_kernel(native.address, [x, out], [20], None, 0, 20)
    return out[0]


def forget():
    """Compile as a new process would."""
    return kernels.KernelTable()


def test_second_request_is_answered_from_memory(folder):
    kernel, factor = fresh_kernel()
    first = kernels.compile_kernels([kernel])[0]
    before = COUNTERS.memory_hits
    again = kernels.compile_kernels([kernel, kernel])
    assert again[0] is first and again[1] is first and COUNTERS.memory_hits > before
    assert result(first) == np.float32(factor) and first.from_cache == ""


def test_a_batch_is_one_module_and_each_kernel_is_found_alone(folder):
    batch = [fresh_kernel() for _ in range(3)]
    options = kernels.default_options()
    forget().kernels([k for k, _ in batch], options)
    names = [p.name.split("-")[0] for p in folder.iterdir()]
    assert sorted(names) == ["kernel"] * 3 + ["module"]
    other, before = forget(), (COUNTERS.compiled, COUNTERS.disk_hits)
    for kernel, factor in reversed(batch):
        native = other.kernels([kernel], options)[0]
        assert native.from_cache == "disk" and result(native) == np.float32(factor)
    assert (COUNTERS.compiled, COUNTERS.disk_hits) == (before[0], before[1] + 3)


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "vanish"])
@pytest.mark.parametrize("entry", ["kernel", "module"])
def test_damaged_entries_are_compiled_again_and_rewritten(folder, entry, damage):
    kernel, factor = fresh_kernel()
    options = kernels.default_options()
    forget().kernels([kernel], options)
    path = next(folder.glob(f"{entry}-*"))
    good = path.read_bytes()
    match damage:
        case "truncate":
            path.write_bytes(good[:-3])
        case "flip":
            path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        case "empty":
            path.write_bytes(b"")
        case "vanish":
            path.unlink()
    run_process(folder, factor, "")
    assert path.exists() and path.read_bytes()[: len(cache.MAGIC)] == cache.MAGIC
    run_process(folder, factor, "disk")


def check_from_disk(factor, expected):
    """Run in another process: the kernel comes from where it should."""
    number = float(factor)
    native = kernels.compile_kernels([pointwise([F32], lambda x: x * number)])[0]
    assert native.from_cache == expected, native.from_cache
    assert result(native) == np.float32(number)


def run_process(folder, factor, expected):
    """`check_from_disk` in another process, which compiles or finds the kernel."""
    tests = Path(__file__).resolve().parent.parent
    code = (
        "import sys; sys.path[:0] = sys.argv[1:2]; from codegen import test_cache as t; "
        "t.check_from_disk(*sys.argv[2:])"
    )
    environment = {**os.environ, "JITGRAD_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", code, str(tests), str(factor), expected]
    subprocess.run(command, check=True, env=environment, cwd=folder)


def test_many_kernels_are_modules_compiled_side_by_side(folder, monkeypatch):
    batch = [fresh_kernel() for _ in range(20)]
    monkeypatch.setattr(pool, "_threads", 2)
    found = forget().kernels([k for k, _ in batch], kernels.default_options())
    assert [result(native) for native in found] == [np.float32(factor) for _, factor in batch]
    names = [p.name.split("-")[0] for p in folder.iterdir()]
    assert names.count("kernel") == 20 and names.count("module") == 3


def test_kernels_are_begun_before_they_are_asked_for(folder, monkeypatch):
    batch = [fresh_kernel() for _ in range(12)]
    monkeypatch.setattr(pool, "_threads", 2)
    table, options = forget(), kernels.default_options()
    for part in (batch[:5], batch[3:7], batch[:2]):
        table.begin([k for k, _ in part], options)
    compiled = COUNTERS.compiled
    found = table.kernels([k for k, _ in batch], options)
    assert [result(native) for native in found] == [np.float32(factor) for _, factor in batch]
    assert COUNTERS.compiled - compiled == 12
    names = [p.name.split("-")[0] for p in folder.iterdir()]
    assert names.count("kernel") == 12 and names.count("module") == 3
    table.begin([batch[0][0]], options)  # there is nothing to begin
    assert not table._begun


def test_a_module_is_begun_before_it_is_asked_for(folder, monkeypatch):
    monkeypatch.setattr(pool, "_threads", 2)
    table = forget()
    table.begin_module("probe", probe)
    assert len(table._begun_modules) == 1 and not folder.exists()
    assert table.module("probe", probe).address("jitgrad_probe")
    assert not table._begun_modules and len(list(folder.iterdir())) == 1
    table.begin_module("probe", probe)  # it is known
    assert not table._begun_modules


def probe(module):
    """A function that does nothing."""
    function = llvm_ir.Function(module, llvm_ir.FunctionType(llvm_ir.VoidType(), []), "jitgrad_probe")
    llvm_ir.IRBuilder(function.append_basic_block("entry")).ret_void()


def test_turns_are_short_until_the_end():
    before = sys.getswitchinterval()
    with pytest.raises(KeyError), code_maker.soon_switched():
        with code_maker.soon_switched():
            pass
        assert sys.getswitchinterval() < before
        raise KeyError
    assert sys.getswitchinterval() == pytest.approx(before)


def test_an_error_of_llvm_is_raised_to_the_caller():
    maker = CodeMaker(2)
    for name in "ab":
        maker.add(name, "this is no module")
    with pytest.raises(RuntimeError, match="parsing error"):
        maker.finish()


def test_compiling_and_running_imports_no_numba():
    code = """
import sys, numpy as np, jitgrad as jg
f = jg.compile(lambda x: (x.tanh() * 2).sum())
f(jg.ones(1 << 20))
assert jg.get_num_threads() == 2 and "llvmlite" in sys.modules and "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "JITGRAD_NUM_THREADS": "2"})


def test_several_processes_at_once(folder):
    _, factor = fresh_kernel()
    tests = Path(__file__).resolve().parent.parent
    code = (
        "import sys; sys.path[:0] = sys.argv[1:2]; from codegen import test_cache as t\n"
        "try: t.check_from_disk(sys.argv[2], 'disk')\nexcept AssertionError as e: assert not str(e)"
    )
    environment = {**os.environ, "JITGRAD_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", code, str(tests), str(factor)]
    running = [subprocess.Popen(command, env=environment, cwd=tests) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    assert not list(folder.glob("*.tmp"))


def test_a_folder_that_cannot_be_written_is_tolerated(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setattr(config, "cache_dir", blocked / "cache")
    kernel, factor = fresh_kernel()
    assert result(kernels.compile_kernels([kernel])[0]) == np.float32(factor)
    monkeypatch.setattr(config, "cache_dir", None)
    kernel, factor = fresh_kernel()
    assert result(kernels.compile_kernels([kernel])[0]) == np.float32(factor)


def test_the_oldest_entries_go_first(tmp_path):
    store = DiskCache(tmp_path, 10**6)
    for i in range(4):
        store.write(f"e{i}", bytes(200))
        os.utime(tmp_path / f"e{i}.jgc", (i, i))
    assert store.read("e0") is not None  # makes it the youngest
    store.write("e4", bytes(200))
    store.limit = 800
    store.shrink()
    assert [store.read(f"e{i}") is not None for i in range(5)] == [True, False, False, True, True]
    store.write("large", bytes(2000))
    assert store.read("large") is None


def test_keys_tell_structure_options_and_nothing_else():
    options = kernels.default_options()
    strict = kernels.default_options("strict")
    one, two = (pointwise([F32], lambda x, f=f: x * f) for f in (2.0, 3.0))
    assert kernels.kernel_key(one, options) == kernels.kernel_key(pointwise([F32], lambda x: x * 2.0), options)
    keys = {kernels.kernel_key(one, options), kernels.kernel_key(two, options), kernels.kernel_key(one, strict)}
    assert len(keys) == 3


def test_threads_compile_each_kernel_once(folder):
    wanted = [fresh_kernel()[0] for _ in range(4)]
    before, seen = COUNTERS.compiled, []
    threads = [threading.Thread(target=lambda: seen.append(kernels.compile_kernels(wanted))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert COUNTERS.compiled == before + 4
    assert all(a is b for natives in seen for a, b in zip(natives, seen[0]))


def test_dumps_of_a_kernel():
    kernel = pointwise([F32], scalar.tanh)
    native = kernels.compile_kernels([kernel])[0]
    assert "tanh.f32" in native.llvm_ir()
    assert "define" in native.optimised_ir() and "<" in native.optimised_ir()
    assert native.symbol in native.assembly()


def test_kernels_from_disk_bring_the_functions_that_they_share(tmp_path):
    """A product whose second factor is transposed packs it by squares."""
    code = """
import sys, numpy as np, jitgrad as jg
rng = np.random.default_rng(0)
x, w = (jg.from_numpy(rng.standard_normal((96, 80), np.float32)) for _ in range(2))
y = jg.compile(lambda x, w: x @ w.t())(x, w).numpy()
np.testing.assert_allclose(y, x.numpy() @ w.numpy().T, rtol=1e-4, atol=1e-4)
print(jg.counters.counters.kernels, y.sum().hex() if hasattr(y.sum(), "hex") else float(y.sum()).hex())
"""
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(tmp_path), "JITGRAD_CACHE_GRAPHS": "0"}

    def run():
        return subprocess.check_output([sys.executable, "-c", code], env=env, text=True).split()

    first = run()
    entries = [path for path in tmp_path.rglob("*") if path.is_file()]
    shared = [path for path in entries if path.name.startswith("module-") and _defines_a_square(path.read_bytes())]
    assert int(first[0]) > 0 and shared
    assert run() == ["0", first[1]]
    for path in shared:
        path.unlink()
    again = run()
    assert again[1] == first[1]


def _defines_a_square(code):
    return b"jitgrad_square_float32_float32" in code
