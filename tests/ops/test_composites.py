"""Composites: their decomposition means what their reference does; what their gradients keep."""

import numpy as np
import pytest
from ops.gradients import check_gradients
from ops.samples import samples_of
from ops.test_conformance import assert_close

from jitgrad.ir import dtypes
from jitgrad.ir.autodiff import residuals
from jitgrad.ir.builder import Builder
from jitgrad.ir.interpreter import decomposition, run
from jitgrad.ir.op import Op
from jitgrad.ir.ops import REGISTRY
from jitgrad.ir.ops.activation import Elu, Gelu, Relu
from jitgrad.ir.ops.conv import Conv
from jitgrad.ir.ops.linear import Linear
from jitgrad.ir.ops.loss import CrossEntropy
from jitgrad.ir.ops.normalization import BatchNorm, RmsNorm
from jitgrad.ir.ops.pooling import AvgPool, MaxPool
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.slicing import Concat, Pad, Slice
from jitgrad.ir.ops.softmax import LogSoftmax, Softmax
from jitgrad.ir.ops.write import WriteView
from jitgrad.ir.types import TensorType

COMPOSITES = sorted(
    name for name, cls in REGISTRY.items() if cls.has_decomposition() and cls.reference is not Op.reference
)


@pytest.mark.parametrize("name", COMPOSITES)
def test_decomposition_means_what_the_reference_does(name):
    for sample in samples_of(name):
        want = sample.op.reference(*sample.arrays)
        want = want if isinstance(want, tuple) else (want,)
        have = run(decomposition(sample.op, sample.types), sample.arrays)
        for h, w in zip(have, want, strict=True):
            assert_close(np.asarray(h), np.asarray(w), 2 * sample.ulps, scale=1.0)


def f32(*shape):
    return TensorType(shape, dtypes.float32)


IMAGE, WEIGHT, INDEX = f32(2, 3, 8, 8), f32(4, 3, 3, 3), TensorType((5,), dtypes.int64)


@pytest.mark.parametrize(
    ("op", "types", "kept"),
    [
        (Relu(), [f32(3)], ((False,), (True,))),
        (Gelu(), [f32(3)], ((True,), (False,))),
        (Elu(-1.0), [f32(3)], ((True,), (False,))),
        (Relu(), [TensorType((3,), dtypes.float16)], ((False,), (True,))),
        (Softmax(0), [f32(3)], ((False,), (True,))),
        (LogSoftmax(0), [TensorType((3,), dtypes.bfloat16)], ((False,), (True,))),
        (Reshape((6,)), [f32(2, 3)], ((False,), (False,))),
        (Permute((1, 0)), [f32(2, 3)], ((False,), (False,))),
        (Slice((0,), (2,), (1,)), [f32(3)], ((False,), (False,))),
        (Concat(0), [f32(3), f32(2)], ((False, False), (False,))),
        (Pad((1,), (1,)), [f32(3), f32()], ((False, False), (False,))),
        (WriteView((Slice((0,), (2,), (1,)),)), [f32(3), f32(2)], ((False, False), (False,))),
        (Linear(), [f32(5, 3), f32(2, 3), f32(2)], ((True, True, False), (False,))),
        (CrossEntropy(), [f32(5, 3), INDEX], ((True, True), (False,))),
        (Conv((1, 1), (1, 1), (1, 1), 1), [IMAGE, WEIGHT], ((True, True), (False,))),
        (MaxPool((2, 2), (2, 2), (0, 0), (1, 1)), [IMAGE], ((True,), (False,))),
        (AvgPool((2, 2), (2, 2), (0, 0)), [IMAGE], ((False,), (False,))),
        (BatchNorm(), [IMAGE, f32(3), f32(3)], ((True, True, False), (False, True, True))),
    ],
    ids=str,
)
def test_gradients_keep_no_more_than_they_use(op, types, kept):
    needs = [t.dtype.is_differentiable for t in types]
    assert residuals(op, types, needs) == kept


def test_an_operand_that_comes_twice_gets_its_gradient_once():
    b = Builder()
    x = b.input(TensorType((4,), dtypes.float64))
    graph = b.build([b(RmsNorm(1, 1e-3), x, x)])
    check_gradients(graph, [np.array([0.5, -1.0, 2.0, 0.25])])
