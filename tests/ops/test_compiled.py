"""Compiled equals reference: every op's samples as one compiled graph, on the first call and the second."""

import numpy as np
import pytest
from ops.samples import samples_of
from ops.test_conformance import assert_close

from jitgrad.codegen import compile_graph
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.interpreter import apply_reference
from jitgrad.ir.ops import REGISTRY

# The quick sweep takes a few samples of these dtypes; the slow one takes them all.
QUICK = {dtypes.bool_, dtypes.int64, dtypes.float32}
MOST = 8


def check(samples):
    b = Builder()
    inputs, outputs, owners = [], [], []
    for sample in samples:
        operands = [b.input(t) for t in sample.types]
        results = b.emit(sample.op, *operands)
        inputs += sample.arrays
        outputs += results
        owners += [(sample, i) for i in range(len(results))]
    executable = compile_graph(b.build(outputs))
    arrays = [np.array(a) for a in inputs]
    for _ in range(2):
        for have, (sample, i) in zip(executable(arrays), owners, strict=True):
            want = np.asarray(apply_reference(sample.op, sample.arrays)[i])
            try:
                assert_close(have, want, max(sample.ulps, 8.0), scale=1.0)
            except AssertionError as error:
                error.add_note(f"sample: {sample}")
                raise
    for before, after in zip(inputs, arrays, strict=True):
        assert after.tobytes() == before.tobytes(), "an operand was written to"


def dtypes_of(sample):
    return {t.dtype for t in (*sample.types, *sample.op.infer(*sample.types))}


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_compiled_equals_reference(name):
    check([s for s in samples_of(name) if dtypes_of(s) <= QUICK][:MOST])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_compiled_equals_reference_in_every_dtype(name):
    check(samples_of(name))
