"""Every op's kernels as CUDA source: run by one thread after another, with the sizes for GPUs."""

import numpy as np
import pytest
from cuda_kernels import run_graph, run_sequentially
from ops.test_compiled import NAMES, ULPS, compilable, spread, together
from ops.test_conformance import assert_close

from jitgrad.codegen.fuse import KernelStep, fuse
from jitgrad.codegen.options import DEFAULT
from jitgrad.codegen.prepare import prepare
from jitgrad.ir.interpreter import run

QUICK = 3  # samples of an op, evenly spread; the slow sweep takes all


def one_thread(launch, buffers):
    run_sequentially(launch.kernel, buffers, launch.slots, launch.params)


def check(name, count):
    samples = spread(compilable(name), count)
    if not samples:
        pytest.skip("complex numbers run by the reference")
    graph, arrays = together(samples)
    prepared = prepare(graph, DEFAULT)
    if not any(isinstance(s, KernelStep) for s in fuse(prepared, DEFAULT).steps):
        pytest.skip("runs by the reference")
    want = run(graph, arrays)
    for have, expected in zip(run_graph(prepared, arrays, one_thread), want, strict=True):
        assert_close(np.asarray(have), np.asarray(expected), ULPS * max(s.ulps for s in samples), scale=1.0)


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    check(name, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_values(name):
    check(name, 10**9)
