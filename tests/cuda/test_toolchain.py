"""The interface of kernels, and the seam to the compilers: geometry, arguments, caching, what is said without one."""

import importlib
import importlib.util
import linecache

import numpy as np
import pytest
from codegen.formulas import CASES, build
from cuda_zoo import kernels_of

from jitgrad.codegen.cuda import kernels as kernels_module
from jitgrad.codegen.cuda import toolchain
from jitgrad.codegen.cuda.kernels import KernelTable, kernel_key
from jitgrad.codegen.cuda.mapping import Geometry, map_kernel
from jitgrad.codegen.cuda.target import SIMULATOR, Target, device_target
from jitgrad.codegen.loops.ir import Buffer, Init, Kernel, Loop, Store, Update, acc_ref, load, loop_var, param, slot
from jitgrad.ir import dtypes
from jitgrad.ir.config import config
from jitgrad.ir.scalar import const

T, J = loop_var("t"), loop_var("j")
ZERO, TARGET = const(0), Target((9, 0), blocks=100)
F32 = dtypes.float32


def flat(kind="parallel_vector"):
    """b1[t] = b0[t] * p0 over s0 elements."""
    value = load(0, F32, T) * param(0, F32)
    buffers = (Buffer(F32, "in"), Buffer(F32, "out"))
    return Kernel(buffers, 1, (F32,), (Loop(T, ZERO, slot(0), (Store(1, T, value),), kind),))


def rows():
    """b1[t] = sum of s1 elements of row t."""
    acc = acc_ref(0, F32)
    inner = Loop(J, ZERO, slot(1), (Update((0,), (acc + load(0, F32, T * slot(1) + J),)),), "vector")
    body = (Init(0, const(0.0, F32)), inner, Store(1, T, acc))
    return Kernel((Buffer(F32, "in"), Buffer(F32, "out")), 2, (), (Loop(T, ZERO, slot(0), body, "parallel"),))


@pytest.mark.parametrize(
    ("kernel", "slots", "want"),
    [
        (flat(), [0], (0, 1)),
        (flat(), [1], (1, 32)),
        (flat(), [1000], (1, 256)),  # four elements a thread
        (flat(), [1025], (2, 256)),
        (flat(), [10**12], (100, 256)),
        (rows(), [3, 5], (3, 32)),
        (rows(), [3, 100], (3, 32)),  # four elements a thread
        (rows(), [3, 300], (3, 128)),
        (rows(), [1000, 10**6], (100, 256)),
        (rows(), [0, 5], (0, 1)),
    ],
)
def test_geometry(kernel, slots, want):
    assert map_kernel(kernel, False).geometry(slots, TARGET) == Geometry(*want)


def test_sums_in_order_are_one_threads():
    assert map_kernel(rows(), strict=False).by_block
    assert not map_kernel(rows(), strict=True).by_block


def test_what_threads_hand_to_each_other_stands_between_barriers():
    """b0[j] = b1[j], then b2[j] = b0[s1 - j]: written by one thread, read by another."""
    first = Loop(J, ZERO, slot(0), (Store(0, J, load(1, F32, J)),), "vector")
    second = Loop(J, ZERO, slot(0), (Store(2, J, load(0, F32, slot(1) - J)),), "vector")
    kernel = Kernel((Buffer(F32, "inout"), Buffer(F32, "in"), Buffer(F32, "out")), 2, (), (first, second))
    assert map_kernel(kernel, False).shared == {0}
    source = kernels_module.kernel_source(kernel, map_kernel(kernel, False), TARGET, "k", False)
    assert source.count("cuda.syncthreads()") == 2


def test_in_place_needs_no_barrier():
    body = (Store(0, T, load(0, F32, T) * load(0, F32, T)),)
    kernel = Kernel((Buffer(F32, "inout"),), 1, (), (Loop(T, ZERO, slot(0), body, "vector"),))
    assert not map_kernel(kernel, False).shared


def test_device_target():
    target = device_target((8, 6), 82)
    assert (target.architecture, target.threads, target.blocks) == ("sm_86", 256, 82 * 16)


def test_key_is_content():
    gelu, softmax = (kernels_of(build(*CASES[name]))[0] for name in ("gelu", "softmax rows"))
    key = kernel_key(gelu, "default", SIMULATOR)
    assert key == kernel_key(kernels_of(build(*CASES["gelu"]))[0], "default", SIMULATOR)
    others = [kernel_key(softmax, "default", SIMULATOR), kernel_key(gelu, "strict", SIMULATOR)]
    assert len({key, *others}) == 3


needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)


@needs_compiler
def test_compiled_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    kernel = flat()
    (made,) = KernelTable().kernels([kernel], "default", TARGET)
    assert made.entry in made.source and f"entry {made.entry}" in made.ptx and made.function is None
    assert made.signature.buffers == (F32, F32) and made.signature.slots == 1
    assert linecache.getlines(f"<jitgrad {made.entry}>")
    count, number = made.scalars([7], [0.5])
    assert (count.dtype, number.dtype) == (np.int64, np.float32) and number == 0.5
    compile_source = toolchain.compile_source
    monkeypatch.setattr(toolchain, "compile_source", None)
    (again,) = KernelTable().kernels([kernel], "default", TARGET)  # from disk, in another table
    assert (again.ptx, again.cubin) == (made.ptx, made.cubin)
    for path in tmp_path.glob("cuda-*"):
        path.write_bytes(path.read_bytes()[:-1])  # a damaged entry is as good as none
    monkeypatch.setattr(toolchain, "compile_source", compile_source)
    assert KernelTable().kernels([kernel], "default", TARGET)[0].cubin


@needs_compiler
def test_another_grid_is_the_same_code():
    table, kernel = KernelTable(), flat()
    (small,) = table.kernels([kernel], "default", TARGET)
    (large,) = table.kernels([kernel], "default", Target((9, 0), blocks=1000))
    assert small.cubin is large.cubin and small.launch([10**9]).grid == 100 and large.launch([10**9]).grid == 1000


def test_params_of_every_type():
    made = kernels_module.CudaKernel
    for dtype, kind in ((dtypes.bool_, "u1"), (dtypes.bfloat16, "f4"), (dtypes.float16, "f4"), (dtypes.int8, "i1")):
        kernel = Kernel((), 0, (dtype,), ())
        whole = made("", kernel, TARGET, "", "", "", b"", None, map_kernel(kernel, False))
        (value,) = whole.scalars([], [1])
        assert value.dtype == np.dtype(kind) and value == 1


def test_without_the_extra_one_sentence_says_what_to_do(monkeypatch):
    def missing(name, *rest):
        raise ImportError(f"No module named {name!r}")

    toolchain._numba_cuda.cache_clear()
    monkeypatch.setattr(toolchain.importlib, "import_module", missing)
    with pytest.raises(toolchain.ToolchainError, match=r"need numba-cuda, which is not installed: pip .*cuda13"):
        toolchain.compile_source("", "k", ((), 0, ()), (9, 0), 256)
    monkeypatch.undo()
    toolchain._numba_cuda.cache_clear()


@needs_compiler
def test_without_nvvm_one_sentence_says_what_to_do(monkeypatch):
    def fails(*args, **kwargs):
        raise ImportError("libNVVM cannot be found")

    monkeypatch.setattr(toolchain._numba_cuda(), "compile", fails)
    with pytest.raises(toolchain.ToolchainError, match=r"need NVVM, which was not found.*CUDA_HOME"):
        toolchain.compile_source("def k():\n    pass\n", "k", ((), 0, ()), (9, 0), 256)


def test_simulator_must_be_asked_for_in_the_environment(monkeypatch):
    numba = importlib.import_module("numba")
    if numba.config.ENABLE_CUDASIM:
        pytest.skip("it is on")
    with pytest.raises(toolchain.ToolchainError, match="NUMBA_ENABLE_CUDASIM=1"):
        toolchain.simulated("def k():\n    pass\n", "k")


def test_stores_move_along_or_stay_serial():
    """All iterations store to one place: the last must win, so that no two threads may share them."""
    loop = Loop(J, ZERO, slot(0), (Store(1, ZERO, load(0, F32, J)),), "vector")
    kernel = Kernel((Buffer(F32, "in"), Buffer(F32, "out")), 1, (), (loop,))
    assert not map_kernel(kernel, False).by_block
