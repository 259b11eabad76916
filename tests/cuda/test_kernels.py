"""Whole programs as CUDA source, run by one thread after another: for the sizes of either kind of machine."""

from dataclasses import replace

import numpy as np
import pytest
from codegen.formulas import CASES, arrays, build
from codegen.ordered import ORDERED
from cuda_kernels import run_graph, run_sequentially

from jitgrad.codegen.loops.interpret import interpret
from jitgrad.codegen.lower import CPU_TUNING, GPU_TUNING
from jitgrad.ir import interpreter


def one_thread(launch, buffers):
    run_sequentially(launch.kernel, buffers, launch.slots, launch.params)


def strictly(launch, buffers):
    run_sequentially(launch.kernel, buffers, launch.slots, launch.params, strict=True)


def interpreted(launch, buffers):
    interpret(launch.kernel, buffers, launch.slots, launch.params)


@pytest.mark.parametrize("tuning", [CPU_TUNING, GPU_TUNING], ids=["for cpu", "for gpu"])
@pytest.mark.parametrize("run", [one_thread, strictly, interpreted], ids=["source", "strict source", "interpreted"])
@pytest.mark.parametrize("case", [*CASES, *ORDERED])
def test_programs(case, run, tuning):
    types, formula = {**CASES, **ORDERED}[case]
    graph, inputs = build(types, formula), arrays(types)
    want = interpreter.run(graph, inputs)
    for have, expected in zip(run_graph(graph, inputs, run, tuning), want, strict=True):
        assert (have.shape, have.dtype) == (np.shape(expected), np.asarray(expected).dtype)
        wide = 2e-5 if have.dtype.itemsize > 2 else 2e-3  # float32 sums of some hundred terms; float16 rounded once
        np.testing.assert_allclose(have.astype("f8"), expected.astype("f8"), rtol=wide, atol=wide)


LONG_ROWS = replace(GPU_TUNING, long_row=4, few_rows=10_000, chunk=7)
ROWS = [
    "softmax rows", "softmax short rows", "layer norm", "layer norm short rows", "log softmax", "moments", "argmax",
    "mixed sum", "empty", "no axes",
]  # fmt: skip


@pytest.mark.parametrize("run", [one_thread, interpreted], ids=["source", "interpreted"])
@pytest.mark.parametrize("case", ROWS)
def test_long_rows_in_chunks(case, run):
    types, formula = CASES[case]
    graph, inputs = build(types, formula), arrays(types)
    for have, expected in zip(run_graph(graph, inputs, run, LONG_ROWS), interpreter.run(graph, inputs), strict=True):
        np.testing.assert_allclose(have, expected, rtol=2e-5, atol=2e-5)
