"""Samples of activations: random numbers, special values, and fields other than the usual ones."""

import numpy as np
from ops.sampling import FLOATS, Sample, integers, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.activation import (
    Elu,
    Gelu,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyRelu,
    LogSigmoid,
    Mish,
    Relu,
    Silu,
    Softplus,
)
from jitgrad.ir.ops.logit import Logit

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 20.0, -20.0, 100.0, -100.0, np.inf, np.nan])
SHAPES = ((), (3,), (2, 3), (0,), (2, 0, 3))
OPS = {
    "relu": [Relu()],
    "leaky_relu": [LeakyRelu(), LeakyRelu(0.3), LeakyRelu(-0.5)],
    "elu": [Elu(), Elu(0.7), Elu(-0.5), Elu(1.7, 1.1), Elu(0.5, 1.0, 2.0)],
    "gelu": [Gelu(), Gelu("tanh")],
    "silu": [Silu()],
    "softplus": [Softplus(), Softplus(2.0, 1.5)],
    "log_sigmoid": [LogSigmoid()],
    "hardtanh": [Hardtanh(), Hardtanh(-0.5, 1.5)],
    "hardsigmoid": [Hardsigmoid()],
    "hardswish": [Hardswish()],
    "mish": [Mish()],
    "logit": [Logit(), Logit(0.2)],
}
SMOOTH = {"logit": (0.25, 0.75)}  # where derivatives are bounded; elsewhere -2 to 2
TORCH_NAMES = {"log_sigmoid": "logsigmoid"}


def _oracle(op):
    def call(x):
        import torch

        if op.name == "elu":
            return torch.ops.aten.elu(x, *op.attributes().values())
        if op.name == "logit":
            return torch.logit(x, op.eps)
        return getattr(torch.nn.functional, TORCH_NAMES.get(op.name, op.name))(x, **op.attributes())

    return call


def _samples(name):
    def build():
        for op in OPS[name]:
            for shape in SHAPES:
                yield Sample(
                    op, (uniform(shape, dtypes.float64, *SMOOTH.get(name, (-2, 2))),), _oracle(op), smooth=True, ulps=64
                )
            for dtype in FLOATS:
                yield Sample(op, (uniform((4, 5), dtype, -6, 6),), _oracle(op), ulps=64)
                # PyTorch's gelu of infinity is infinite or NaN, depending on its place in memory.
                special = SPECIAL if name != "gelu" else SPECIAL[np.isfinite(SPECIAL)]
                yield Sample(op, (special.astype(dtype.np),), _oracle(op), label=" special", ulps=64)
            if "int" in op.accepts:
                yield Sample(op, (integers((3, 4), dtypes.int32),), _oracle(op))

    return build


TABLE = {name: _samples(name) for name in OPS}
