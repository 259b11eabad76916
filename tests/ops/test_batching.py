"""Batching rules: an op for many samples at once means what it means for each of them."""

import itertools

import numpy as np
import pytest
from ops.samples import samples_of
from ops.test_conformance import assert_close

from jitgrad.ir import dtypes
from jitgrad.ir.batching import Mapped, batched_op
from jitgrad.ir.interpreter import apply_reference, run
from jitgrad.ir.ops import REGISTRY
from jitgrad.ir.types import TensorType

SIZE = 3
DTYPES = (dtypes.float32, dtypes.complex64, dtypes.int64, dtypes.int32, dtypes.bool_, dtypes.uint8, dtypes.float64)
ONE_BY_ONE = {
    "bin_counts", "bin_edges", "constant", "ctc_loss_grad", "full", "histc", "iota", "random_bits", "random_int",
    "random_normal", "random_uniform",
}  # fmt: skip
NAMES = [name for name in sorted(REGISTRY) if REGISTRY[name] is not Mapped]


def type_of(x):
    return TensorType(x.shape, dtypes.FROM_NUMPY[x.dtype])


def in_samples(arrays, batched):
    """The arrays, those that are `batched` as several samples: floats scaled, int64 indices in another order."""
    out = []
    for x, has in zip(arrays, batched, strict=True):
        samples = [x, x, x]
        if x.dtype.kind == "f" and np.isfinite(x).all():
            samples[1] = (x * x.dtype.type(0.875)).astype(x.dtype)
        elif x.dtype == np.int64:
            samples[1] = np.roll(x, 1)
        out.append(np.stack(samples) if has else x)
    return out


def check(sample):
    count = len(sample.arrays)
    masks = [m for m in itertools.product((True, False), repeat=count) if any(m)]
    for batched in masks if count < 4 else masks[:1] + masks[-1:]:
        arrays = in_samples(sample.arrays, batched)
        found = batched_op(sample.op, [type_of(x) for x in arrays], batched, SIZE)
        try:
            want = [
                apply_reference(sample.op, [x[i, ...] if has else x for x, has in zip(arrays, batched, strict=True)])
                for i in range(SIZE)
            ]
        except Exception as error:
            with pytest.raises(type(error)):
                run(found.graph, arrays)
            continue
        have = run(found.graph, arrays)
        for column, h in zip(zip(*want, strict=True), have, strict=True):
            w = np.stack(column)
            assert h.shape == w.shape and h.dtype == w.dtype, (sample, batched)
            assert_close(np.asarray(h), w, 4 * sample.ulps, scale=1.0)
        assert sample.op.name in ONE_BY_ONE or not found.is_mapped or sample.op.name in PARTLY, (sample, batched)


PARTLY = {  # with some operands
    "attention", "attention_grad", "attention_lse", "isin", "pad", "take_clamped", "searchsorted",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_samples_at_once(name):
    seen = set()
    for sample in samples_of(name):
        if not sample.arrays or any(x.dtype not in [d.np for d in DTYPES] for x in sample.arrays):
            continue
        shape = tuple((x.ndim, x.dtype) for x in sample.arrays)
        if (sample.op, shape) not in seen and len(seen) < 12:
            seen.add((sample.op, shape))
            check(sample)
