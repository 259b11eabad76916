"""Samples of matrix products, softmax, losses, convolutions, pooling and normalisation."""

import operator

import numpy as np
from ops.sampling import COMPLEX, FLOATS, INTEGERS, Sample, integers, numbers, rng, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.conv import Conv, ConvInputGrad, ConvWeightGrad
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.linear import Linear
from jitgrad.ir.ops.loss import CrossEntropy, MseLoss, NllLoss
from jitgrad.ir.ops.normalization import BatchNorm, BatchNormInference, LayerNorm, RmsNorm
from jitgrad.ir.ops.pooling import AvgPool, MaxPool
from jitgrad.ir.ops.softmax import LogSoftmax, Softmax

F64 = dtypes.float64


def _functional(name, *arguments, **options):
    import torch

    return getattr(torch.nn.functional, name)(*arguments, **options)


MATRICES = [
    ((2, 3), (3, 4)),
    ((3, 2, 3), (3, 3, 1)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((2, 1, 2, 2), (2, 1, 2, 5)),
]


def _matmul():

    shapes = [
        ((2, 3), (3, 4)),
        ((3, 2, 3), (3, 3, 1)),
        ((2, 0), (0, 3)),
        ((0, 2), (2, 3)),
        ((2, 1, 2, 2), (2, 1, 2, 5)),
    ]
    for left, right in shapes:
        for dtype in (*FLOATS, *INTEGERS, *COMPLEX):
            arrays = (numbers(left, dtype), numbers(right, dtype, seed=1))
            yield Sample(MatMul(), arrays, operator.matmul, smooth=True, ulps=16)


def _linear():
    for shape, out in (((4, 3), 2), ((3,), 4), ((2, 3, 3), 1), ((0, 3), 2), ((2, 0), 2)):
        for dtype in (*FLOATS, *COMPLEX):
            arrays = (numbers(shape, dtype), numbers((out, shape[-1]), dtype, seed=1), numbers((out,), dtype, seed=2))
            for count in (2, 3):
                yield Sample(Linear(), arrays[:count], lambda *a: _functional("linear", *a), smooth=True, ulps=16)


SOFTMAX_SPECIAL = np.array(
    [
        [1e4, -1e4, 0.0],
        [-np.inf, 0.0, 1.0],
        [-np.inf, -np.inf, -np.inf],
        [np.inf, 0.0, 1.0],
        [np.nan, 0.0, 1.0],
    ]
)


def _softmax(cls):
    def build():
        for shape, axis in (
            ((3, 4), 1),
            ((3, 4), 0),
            ((2, 3, 4), 1),
            ((5,), 0),
            ((1, 3), 0),
            ((0, 3), 1),
            ((3, 0), 1),
        ):
            for dtype in FLOATS:
                oracle = lambda x, axis=axis: _functional(cls.name, x, axis)  # noqa: E731
                yield Sample(cls(axis), (uniform(shape, dtype),), oracle, smooth=True, ulps=8)
        for dtype in (dtypes.float32, F64):
            oracle = lambda x: _functional(cls.name, x, 1)  # noqa: E731
            yield Sample(cls(1), (SOFTMAX_SPECIAL.astype(dtype.np),), oracle, label=" special")

    return build


def _targets(shape, classes, ignored=None):
    target = np.asarray(rng(7).integers(0, classes, shape))
    if ignored is not None and target.size:
        target.reshape(-1)[::3] = ignored
    return target


def _class_losses(cls, **choices):
    cases = [((6, 4), None), ((6, 4), -100), ((6, 4), 2), ((2, 3, 2, 5), None), ((4,), None), ((0, 3), None)]

    def build():
        for shape, ignored in cases:
            classes = shape[1] if len(shape) > 1 else shape[0]
            target = _targets(tuple(n for a, n in enumerate(shape) if a != min(1, len(shape) - 1)), classes, ignored)
            for reduction in ("none", "sum", "mean"):
                for smoothing in choices.get("label_smoothing", (None,)):
                    extra = {} if smoothing is None else {"label_smoothing": smoothing}
                    op = cls(reduction, -100 if ignored is None else ignored, **extra)
                    for dtype in (dtypes.float16, dtypes.float32, F64) if shape == (6, 4) else (F64,):
                        yield from _weighted(op, uniform(shape, dtype), target, classes)
        if cls is CrossEntropy:
            logits = np.array([[-np.inf, 0.0, 1.0], [1e4, 0.0, -1e4]])
            yield Sample(cls("none"), (logits, np.array([1, 0])), _loss_oracle(cls("none")), label=" special")

    return build


def _weighted(op, x, target, classes):
    weight = uniform((classes,), dtypes.FROM_NUMPY[x.dtype], 0.5, 2.0, seed=3)
    smooth = x.dtype == np.float64 and x.size > 0
    yield Sample(op, (x, target), _loss_oracle(op), smooth=smooth, ulps=8)
    yield Sample(op, (x, target, weight), _loss_oracle(op), ulps=8, label=" weighted")


def _loss_oracle(op):
    def call(x, target, weight=None):
        return _functional(op.name, x, target, weight, **op.attributes())

    return call


def _mse():
    for reduction in ("none", "sum", "mean"):
        for shape in ((3, 4), (), (0,)):
            for dtype in FLOATS:
                op = MseLoss(reduction)
                oracle = lambda x, y, op=op: _functional("mse_loss", x, y, reduction=op.reduction)  # noqa: E731
                smooth = shape != (0,)
                yield Sample(op, (uniform(shape, dtype), uniform(shape, dtype, seed=1)), oracle, smooth, ulps=8)


# input, weight, stride, padding, dilation, groups
CONVS = [
    ((2, 3, 8), (4, 3, 3), (1,), (0,), (1,), 1),
    ((2, 4, 9), (6, 2, 2), (2,), (1,), (2,), 2),
    ((2, 3, 6, 5), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 3, 7, 6), (4, 3, 3, 2), (2, 1), (1, 0), (1, 2), 1),
    ((1, 4, 5, 5), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((2, 2, 5, 5), (2, 2, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((0, 2, 4, 4), (3, 2, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 2, 4, 3, 4), (3, 2, 2, 3, 2), (1, 1, 2), (0, 1, 1), (1, 1, 1), 1),
]


def _conv_types(case):
    return (*FLOATS, dtypes.int64, *COMPLEX) if case in CONVS[1:4] else (F64,)


def _convs():
    for case in CONVS:
        x, w, stride, padding, dilation, groups = case

        def oracle(x, w, case=case):
            _, _, stride, padding, dilation, groups = case
            return _functional(f"conv{len(stride)}d", x, w, None, stride, padding, dilation, groups)

        for dtype in _conv_types(case):
            arrays = (numbers(x, dtype), numbers(w, dtype, seed=1))
            yield Sample(Conv(stride, padding, dilation, groups), arrays, oracle, smooth=True, ulps=32)


def _conv_grads(which):
    def build():
        for case in CONVS:
            x_shape, w_shape, *numbers_of = case
            forward = Conv(*numbers_of)
            for dtype in _conv_types(case):
                x, w = numbers(x_shape, dtype), numbers(w_shape, dtype, seed=1)
                y = numbers(forward.reference(x, w).shape, dtype, seed=2)
                options = dict(zip(("stride", "padding", "dilation", "groups"), numbers_of, strict=True))
                oracle = _conv_grad_oracle(which, x_shape, w_shape, options) if dtype.is_floating_point else None
                if which == "input":
                    yield Sample(ConvInputGrad(x_shape[2:], *numbers_of), (y, w), oracle, smooth=True, ulps=64)
                else:
                    yield Sample(ConvWeightGrad(w_shape[2:], *numbers_of), (x, y), oracle, smooth=True, ulps=64)

    return build


def _conv_grad_oracle(which, x_shape, w_shape, options):
    def call(a, b):
        import torch

        rank = len(x_shape) - 2
        if which == "input":
            return getattr(torch.nn.grad, f"conv{rank}d_input")(x_shape, b, a, **options)
        return getattr(torch.nn.grad, f"conv{rank}d_weight")(a, w_shape, b, **options)

    return call


# input, kernel, stride, padding, dilation, ceil_mode
POOLS = [
    ((2, 3, 8), (2,), (2,), (0,), (1,), False),
    ((2, 3, 9), (3,), (2,), (1,), (1,), False),
    ((2, 2, 7, 6), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((2, 2, 7, 6), (2, 2), (2, 2), (0, 0), (1, 1), True),
    ((1, 2, 7, 7), (3, 2), (2, 1), (1, 1), (1, 1), False),
    ((1, 2, 7, 8), (3, 3), (2, 3), (1, 1), (1, 1), True),
    ((1, 1, 9, 9), (2, 3), (1, 2), (0, 1), (2, 2), False),
    ((3, 5, 5), (5, 5), (5, 5), (0, 0), (1, 1), False),
    ((1, 2, 4, 4, 4), (2, 2, 2), (2, 2, 1), (0, 1, 0), (1, 1, 1), False),
]


def _max_pools():
    for x, *numbers_of in POOLS:
        op = MaxPool(*numbers_of)

        def oracle(x, op=op):
            name = f"max_pool{len(op.kernel)}d"
            return _functional(name, x, op.kernel, op.stride, op.padding, op.dilation, op.ceil_mode)

        for dtype in (*FLOATS, dtypes.int32):
            shuffled = rng(3).permutation(int(np.prod(x))).reshape(x).astype(dtype.np)  # no near ties
            yield Sample(op, (shuffled,), oracle if dtype is not dtypes.int32 else None, smooth=True)
    special = np.array([[np.nan, 1.0, -np.inf, -np.inf, np.inf, 2.0, -0.0, 0.0]], np.float32)
    oracle = lambda x: _functional("max_pool1d", x, 2)  # noqa: E731
    yield Sample(MaxPool((2,), (2,), (0,), (1,)), (special,), oracle, label=" special")


def _avg_pools():
    for x, kernel, stride, padding, dilation, ceil_mode in POOLS:
        if set(dilation) != {1}:
            continue
        for count_include_pad, divisor in ((True, 0), (False, 0), (True, 7)):
            op = AvgPool(kernel, stride, padding, ceil_mode, count_include_pad, divisor)

            def oracle(x, op=op):
                extra = {"divisor_override": op.divisor_override or None} if len(op.kernel) > 1 else {}
                return _functional(
                    f"avg_pool{len(op.kernel)}d",
                    x,
                    op.kernel,
                    op.stride,
                    op.padding,
                    op.ceil_mode,
                    op.count_include_pad,
                    **extra,
                )

            for dtype in FLOATS:
                has_oracle = dtype.itemsize > 2 if len(kernel) == 3 else divisor == 0 or len(kernel) > 1
                yield Sample(op, (uniform(x, dtype),), oracle if has_oracle else None, smooth=True, ulps=8)
            yield Sample(op, (integers(x, dtypes.int64),), oracle if divisor == 0 or len(kernel) > 1 else None)


def _batch_norms():
    for shape in ((4, 3), (3, 2, 4), (2, 3, 4, 5)):
        for dtype in FLOATS:
            x, weight, bias = _affine(shape, (shape[1],), dtype)

            def oracle(x, weight=None, bias=None):
                return _functional("batch_norm", x, None, None, weight, bias, training=True)

            yield Sample(BatchNorm(), (x, weight, bias), oracle, smooth=True, ulps=32)
            yield Sample(BatchNorm(), (x,), oracle, smooth=True, ulps=32)


def _batch_norm_inferences():
    for shape in ((4, 3), (2, 3, 4, 5), (0, 3)):
        for dtype in FLOATS:
            x, weight, bias = _affine(shape, (shape[1],), dtype)
            mean, var = uniform((shape[1],), dtype, seed=5), uniform((shape[1],), dtype, 0.5, 2.0, seed=6)

            def oracle(x, mean, var, weight=None, bias=None):
                return _functional("batch_norm", x, mean, var, weight, bias, eps=1e-3)

            op = BatchNormInference(1e-3)
            yield Sample(op, (x, mean, var, weight, bias), oracle, smooth=True, ulps=32)
            yield Sample(op, (x, mean, var), oracle, smooth=True, ulps=32)


def _affine(shape, parameter_shape, dtype):
    return (
        uniform(shape, dtype),
        uniform(parameter_shape, dtype, 0.5, 1.5, seed=1),
        uniform(parameter_shape, dtype, seed=2),
    )


def _row_norms(cls):
    def build():
        for shape, rank in (((4, 5), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((5,), 1), ((0, 4), 1)):
            for dtype in FLOATS:
                arrays = _affine(shape, shape[len(shape) - rank :], dtype)
                op = cls(rank, 1e-3)

                def oracle(x, *parameters, op=op):
                    pair = [*parameters, None, None][: 2 if op.name == "layer_norm" else 1]
                    return _functional(op.name, x, x.shape[x.ndim - op.rank :], *pair, eps=op.eps)

                for count in (1, 2, 3) if cls is LayerNorm else (1, 2):
                    yield Sample(op, arrays[:count], oracle, smooth=True, ulps=32)

    return build


TABLE = {
    "matmul": _matmul,
    "linear": _linear,
    "softmax": _softmax(Softmax),
    "log_softmax": _softmax(LogSoftmax),
    "nll_loss": _class_losses(NllLoss),
    "cross_entropy": _class_losses(CrossEntropy, label_smoothing=(0.0, 0.2)),
    "mse_loss": _mse,
    "conv": _convs,
    "conv_input_grad": _conv_grads("input"),
    "conv_weight_grad": _conv_grads("weight"),
    "max_pool": _max_pools,
    "avg_pool": _avg_pools,
    "batch_norm": _batch_norms,
    "batch_norm_inference": _batch_norm_inferences,
    "layer_norm": _row_norms(LayerNorm),
    "rms_norm": _row_norms(RmsNorm),
}
