"""Network ops beyond single results: statistics, targets out of range, ties, errors."""

import numpy as np
import pytest

from jitgrad.ir import dtypes
from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from jitgrad.ir.interpreter import decomposition, run
from jitgrad.ir.ops.activation import Hardtanh, Relu
from jitgrad.ir.ops.conv import Conv
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.loss import CrossEntropy, MseLoss, NllLoss
from jitgrad.ir.ops.normalization import BatchNorm, LayerNorm
from jitgrad.ir.ops.pooling import AvgPool, MaxPool
from jitgrad.ir.types import TensorType


def typed(*shape, dtype=dtypes.float32):
    return TensorType(shape, dtype)


def gradient(op, *arrays, wrt=(0,)):
    """The gradient of the sum of the first result."""
    b = Builder()
    types = [TensorType(a.shape, dtypes.FROM_NUMPY[a.dtype]) for a in arrays]
    graph = b.build(b.emit(op, *(b.input(t) for t in types)))
    full = gradient_graph(graph, wrt, [0])
    ones = np.ones(graph.outputs[0].shape, graph.outputs[0].type.dtype.np)
    return run(full, [*arrays, ones])[len(graph.outputs) :]


def test_batch_norm_gives_the_statistics():
    x = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float16)
    y, mean, var = BatchNorm().reference(x)
    assert (y.dtype, mean.dtype, var.dtype) == (np.float16, np.float32, np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(var, wide.var((0, 2)), rtol=1e-5)


def test_max_pool_gives_the_gradient_to_the_first_of_equals():
    x = np.array([[1.0, 3.0, 3.0, 3.0, 2.0, 2.0]])
    (g,) = gradient(MaxPool((3,), (3,), (0,), (1,)), x)
    np.testing.assert_array_equal(g, [[0, 1, 0, 1, 0, 0]])
    (g,) = gradient(MaxPool((40,), (40,), (0,), (1,)), np.zeros((1, 40)))
    np.testing.assert_array_equal(g, [[1, *[0] * 39]])


def test_overlapping_windows_add_up():
    (g,) = gradient(MaxPool((2,), (1,), (0,), (1,)), np.array([[1.0, 5.0, 2.0]]))
    np.testing.assert_array_equal(g, [[0, 2, 0]])


def test_relu_at_zero_and_nan():
    x = np.array([-1.0, -0.0, 0.0, 2.0, np.nan])
    np.testing.assert_array_equal(Relu().reference(x), [0, 0, 0, 2, np.nan])
    np.testing.assert_array_equal(gradient(Relu(), x)[0], [0, 0, 0, 1, 1])


@pytest.mark.parametrize("op", [CrossEntropy(), NllLoss()], ids=str)
@pytest.mark.parametrize("target", [3, -1])
def test_a_target_out_of_range_raises_and_is_nan_in_kernels(op, target):
    x, bad = np.zeros((2, 3)), np.array([0, target])
    with pytest.raises(IndexError, match=f"{op.name}: target {target} is out of range for 3 classes"):
        op.reference(x, bad)
    types = [typed(2, 3, dtype=dtypes.float64), typed(2, dtype=dtypes.int64)]
    assert np.isnan(run(decomposition(op, types), [x, bad])[0])


def test_ignored_targets_get_no_gradient_whatever_they_are():
    x = np.random.default_rng(0).standard_normal((3, 4))
    (g,) = gradient(CrossEntropy(), x, np.array([1, -100, 2]))
    assert not g[1].any() and g[0].any()
    (loss,) = [CrossEntropy().reference(x, np.array([-100] * 3))]
    assert np.isnan(loss)  # a mean of nothing, as in PyTorch


def test_class_weights_have_no_derivative():
    with pytest.raises(AutogradError, match="cross_entropy: the derivative for the class weights"):
        gradient(CrossEntropy(), np.zeros((2, 3)), np.array([0, 1]), np.ones(3), wrt=(2,))


@pytest.mark.parametrize(
    ("op", "types", "error", "message"),
    [
        (
            MatMul(),
            [typed(32, 128), typed(64, 10)],
            ShapeError,
            r"^matmul: contracted axes differ: lhs axis 1 is 128, rhs axis 0 is 64\n"
            r"  lhs f32\[32,128\]   rhs f32\[64,10\]$",
        ),
        (MatMul(), [typed(3, 2, 2), typed(4, 2, 2)], ShapeError, "batch axes differ: axis 0 is 3 in lhs and 4 in rhs"),
        (MatMul(), [typed(2, 2), typed(2, 2, dtype=dtypes.float64)], DTypeError, "operand dtypes differ"),
        (
            Conv((1,), (0,), (1,), 2),
            [typed(1, 4, 8), typed(4, 3, 3)],
            ShapeError,
            "channels differ: input axis 1 is 4, weight axis 1 is 3 times 2 groups",
        ),
        (
            Conv((1, 1), (0, 1), (1, 2), 1),
            [typed(1, 1, 8, 2), typed(1, 1, 3, 3)],
            ShapeError,
            "spatial axis 1: a kernel over 5 does not fit length 2 with padding 1",
        ),
        (MaxPool((3,), (1,), (0,), (1,)), [typed(1, 2)], ShapeError, "a window over 3 does not fit length 2"),
        (AvgPool((2,), (2,), (0,)), [typed(4, dtype=dtypes.bool_)], DTypeError, "avg_pool: not defined for bool"),
        (CrossEntropy(), [typed(4, 3), typed(3, dtype=dtypes.int64)], ShapeError, "without axis 1"),
        (CrossEntropy(), [typed(4, 3), typed(4)], DTypeError, "the target is float32"),
        (MseLoss(), [typed(3), typed(4)], ShapeError, "mse_loss: operand shapes differ"),
        (BatchNorm(), [typed(4, 3), typed(4), typed(4)], ShapeError, r"must have shape \[3\]"),
        (LayerNorm(2), [typed(4)], ShapeError, "layer_norm: 2 of 1 axes to normalise"),
    ],
    ids=str,
)
def test_errors_name_the_rule(op, types, error, message):
    with pytest.raises(error, match=message):
        op.infer(*types)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CrossEntropy("average"),
        lambda: CrossEntropy(label_smoothing=1.5),
        lambda: Conv((1,), (0, 0), (1,), 1),
        lambda: Conv((0,), (0,), (1,), 1),
        lambda: MaxPool((2,), (2,), (2,), (1,)),
        lambda: Hardtanh(1.0, -1.0),
    ],
)
def test_fields_out_of_range_raise(make):
    with pytest.raises(ArgumentError):
        make()
