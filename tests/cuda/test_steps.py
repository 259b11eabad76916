"""Whole training steps as CUDA source, run by one thread after another, and their plans held to the verifier."""

from dataclasses import replace

import numpy as np
import pytest
from cuda_kernels import run_graph, run_sequentially
from cuda_zoo import STEPS

from jitgrad.codegen.fuse import fuse
from jitgrad.codegen.lower import GPU_TUNING
from jitgrad.codegen.options import DEFAULT
from jitgrad.codegen.plan import make_plan
from jitgrad.codegen.plan_verify import verify_plan
from jitgrad.codegen.prepare import prepare
from jitgrad.ir import interpreter

TUNINGS = {"as it is": GPU_TUNING, "long rows": replace(GPU_TUNING, long_row=20, few_rows=10_000, chunk=16)}


def one_thread(launch, buffers):
    run_sequentially(launch.kernel, buffers, launch.slots, launch.params)


def inputs_of(graph):
    """Positive numbers, and class numbers that are in range."""
    rng = np.random.default_rng(0)
    made = []
    for v in graph.inputs:
        x = rng.random(v.shape) * 0.5 + 0.1 if v.type.dtype.is_floating_point else rng.integers(0, 10, v.shape)
        made.append(np.asarray(x).astype(v.type.dtype.np))
    return made


@pytest.mark.parametrize("tuning", TUNINGS)
@pytest.mark.parametrize("family", STEPS)
def test_steps(family, tuning):
    graphs = STEPS[family]()
    assert graphs
    for graph in graphs:
        prepared, inputs = prepare(graph, DEFAULT), inputs_of(graph)
        verify_plan(make_plan(fuse(prepared), {}, TUNINGS[tuning]))
        have = run_graph(prepared, inputs, one_thread, TUNINGS[tuning])
        for h, w in zip(have, interpreter.run(graph, inputs), strict=True):
            # float32 through some dozen layers and back
            np.testing.assert_allclose(np.asarray(h, "f8"), np.asarray(w, "f8"), rtol=2e-3, atol=2e-4)
