"""Threads: how many, the same bits with any number, several Python threads at once, fork."""

import ctypes
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from codegen.formulas import arrays, build, f32, gelu, softmax
from properties.comparison import assert_same_bits

from jitgrad.codegen import compile_graph, get_num_threads, set_num_threads
from jitgrad.codegen.cpu import threads
from jitgrad.ir import interpreter
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.linalg import MatMul


@pytest.fixture(autouse=True)
def _restored():
    before = get_num_threads()
    yield
    set_num_threads(before)


def formula(b, x, y):
    """A kernel of every template."""
    z = gelu(b, b(Add(), x, y))
    squared = b(Mul(), z, z)
    return softmax(b, z), b(Sum((0,), False), squared), b(Sum((0, 1), False), squared), b(MatMul(), z, y)


TYPES = [f32(500, 500)] * 2


def test_small_plans_that_are_shared_out_are_entered_by_the_short_way():
    """With as many threads as there are at the call, and from several Python threads at once."""
    run = compile_graph(build([f32(100, 100)] * 2, lambda b, x, y: b(MatMul(), x, y)))
    inputs = arrays([f32(100, 100)] * 2)
    want = run(inputs)[0].copy()
    for _ in range(40):
        run(inputs)
    assert run._is_shared and run._direct is not None
    for count in (1, 2, 5):
        set_num_threads(count)
        np.testing.assert_array_equal(run(inputs)[0], want)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: run(inputs)[0], range(200)):
            np.testing.assert_array_equal(found, want)


def test_native_code_is_told_of_threads():
    address = threads.pool.team(True)
    set_num_threads(3)
    assert list((ctypes.c_int64 * 2).from_address(address)) in ([3, threads.pool.parallel_for], [1, 0])
    assert list((ctypes.c_int64 * 2).from_address(threads.pool.team(False))) == [1, 0]


def test_any_number_of_threads_gives_the_same_bits():
    run, inputs = compile_graph(build(TYPES, formula)), arrays(TYPES)
    set_num_threads(1)
    alone = run(inputs)[:3]  # the product's bits are OpenBLAS's business
    for count in (2, 3, 7):
        set_num_threads(count)
        for g, w in zip(run(inputs)[:3], alone, strict=True):
            assert_same_bits(g, w)


def test_several_python_threads_at_once():
    run = compile_graph(build(TYPES, formula))
    problems = []

    def work(seed):
        inputs = arrays(TYPES, seed)
        want = run(inputs)
        for _ in range(10):
            for g, w in zip(run(inputs)[:3], want[:3], strict=True):
                if not np.array_equal(g, w):
                    problems.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not problems


def test_several_python_threads_compile_at_once():
    problems = []

    def work(seed):
        for n in range(4):
            types = [f32(3 + seed, 5 + n)] * 2
            graph, inputs = build(types, lambda b, x, y: softmax(b, gelu(b, b(Add(), x, y)))), arrays(types, seed)
            (got,), (want,) = compile_graph(graph)(inputs), interpreter.run(graph, inputs)
            if not np.allclose(got, want, rtol=1e-5, atol=1e-6):
                problems.append((seed, n))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not problems


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_computes():
    run, inputs = compile_graph(build(TYPES, formula)), arrays(TYPES)
    want = run(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that fork and threads need care
        child = os.fork()
    if child == 0:
        good = all(np.array_equal(g, w) for g, w in zip(run(inputs)[:3], want[:3]))
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    for g, w in zip(run(inputs)[:3], want[:3]):
        assert_same_bits(g, w)


def test_without_tbb_everything_still_runs():
    """In a process of its own, because the pool is started once: several Python threads, then a forked child."""
    code = """
import os, threading
import numpy as np
from jitgrad.codegen.cpu import threads
from jitgrad.ir import interpreter
threads._LIBRARIES.clear()
from jitgrad.codegen import compile_graph, set_num_threads
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.types import TensorType
set_num_threads(2)
b = Builder()
x = b.input(TensorType((1_000_000,), dtypes.float32))
run = compile_graph(b.build([b(Add(), x, x)]))
good = []
def work():
    for _ in range(10):
        good.append((run([np.ones(1_000_000, np.float32)])[0] == 2).all())
workers = [threading.Thread(target=work) for _ in range(3)]
for w in workers: w.start()
for w in workers: w.join()
assert len(good) == 30 and all(good) and threads.pool.lock is not None
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0 if all(good) and threads.pool.parallel_for == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_number_of_threads_is_checked():
    with pytest.raises(ValueError, match="at least 1"):
        set_num_threads(0)
    set_num_threads(3)
    assert get_num_threads() == 3


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "5000 100000\n"}, 1.0),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_quota(tmp_path: Path, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert threads._cgroup_quota(tmp_path) == cores
