"""Samples of pointwise ops: made from what the op accepts, and its domain where that is not everything."""

from collections.abc import Callable, Iterator

import numpy as np
from ops.sampling import BY_KIND, FLOATS, UNSIGNED, Sample, integers, numbers, special_values, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops.select import Convert, Where

# Where derivatives are bounded: the interval for each operand. Everywhere else: -2 to 2.
DOMAINS = {
    "log": [(0.2, 3.0)],
    "log2": [(0.2, 3.0)],
    "log10": [(0.2, 3.0)],
    "log1p": [(-0.7, 3.0)],
    "sqrt": [(0.2, 3.0)],
    "rsqrt": [(0.2, 3.0)],
    "reciprocal": [(0.4, 3.0)],
    "asin": [(-0.8, 0.8)],
    "acos": [(-0.8, 0.8)],
    "atanh": [(-0.8, 0.8)],
    "acosh": [(1.2, 3.0)],
    "tan": [(-1.2, 1.2)],
    "lgamma": [(0.6, 5.0)],
    "digamma": [(0.6, 5.0)],
    "erfinv": [(-0.8, 0.8)],
    "ndtri": [(0.1, 0.9)],
    "entr": [(0.2, 3.0)],
    "div": [(-2.0, 2.0), (0.5, 2.0)],
    "pow": [(0.3, 2.0), (-2.0, 2.0)],
    "remainder": [(-2.0, 2.0), (0.7, 0.9)],
    "fmod": [(-2.0, 2.0), (0.7, 0.9)],
    "floor_divide": [(-2.0, 2.0), (0.7, 0.9)],
}

# PyTorch's function where the first public name is not it.
TORCH_NAMES = {name: name for name in ("add", "sub", "div", "round")} | {"sign": "sgn", "complex": "complex"}

# NumPy's own error against PyTorch's is larger in these; in units of the last place.
ULPS = {
    "pow": 16.0, "erfc": 16.0, "sinh": 16.0, "cosh": 16.0, "tan": 16.0, "sigmoid": 8.0, "digamma": 64.0, "log10": 8.0,
}  # fmt: skip

SHAPES = ((), (3,), (2, 3), (0,), (2, 0, 3))


def torch_function(op: Pointwise) -> Callable | None:
    """The PyTorch function of the same name, looked up when called."""
    name = TORCH_NAMES.get(op.name) or next(iter(op.public), None)
    if name is None:
        return None

    def call(*operands):
        import torch

        return getattr(torch, name)(*operands)

    return call


def pointwise_samples(op: Pointwise) -> Iterator[Sample]:
    """Random numbers in several shapes and all accepted dtypes, and the special values of each dtype."""
    torch = torch_function(op)
    ulps = ULPS.get(op.name, 4.0)
    domains = DOMAINS.get(op.name, [(-2.0, 2.0)] * op.arity)
    for kind in op.accepts:
        for dtype in BY_KIND[kind]:
            oracle = None if dtype in UNSIGNED else torch
            if op.name == "complex" and dtype in FLOATS[:2]:
                continue
            if dtype.is_differentiable:
                arrays = [uniform((2, 5), dtype, *d, seed=i) for i, d in enumerate(domains)]
            else:
                arrays = [integers((2, 5), dtype, 1, 10, seed=i) for i in range(op.arity)]
            yield Sample(op, tuple(arrays), oracle, smooth=dtype.itemsize >= 8, ulps=ulps)
            if kind != "complex":  # there libraries differ
                yield from _special(op, dtype, oracle, ulps)
    dtype = BY_KIND[op.accepts[-1]][-1]
    for shape in SHAPES:
        low = [uniform(shape, dtype, *d, seed=i) for i, d in enumerate(domains)] if dtype.is_differentiable else None
        arrays = low or [integers(shape, dtype, 1, 10, seed=i) for i in range(op.arity)]
        yield Sample(op, tuple(arrays), torch, smooth=True, ulps=ulps)


def _special(op, dtype, torch, ulps):
    arrays = special_values(dtype, op.arity)
    if dtype.kind == "int" and op.name in ("floor_divide", "remainder", "fmod"):
        kept = arrays[1] != 0
        arrays = tuple(a[kept] for a in arrays)
    if op.name == "copysign":  # the signs of NaN are lost in PyTorch's bfloat16
        arrays = tuple(a[~np.isnan(arrays[1])] for a in arrays)
    if op.name in ("gcd", "lcm", "i0"):
        torch = None  # PyTorch dies of the lowest integer; its i0 of infinity is NaN
    yield Sample(op, arrays, torch, ulps=ulps, label=" special")


def where_samples() -> Iterator[Sample]:
    """A choice between values of each dtype."""
    torch = _torch("where")
    for dtype in dtypes.ALL:
        for shape in SHAPES:
            arrays = (integers(shape, dtypes.bool_), numbers(shape, dtype, 1), numbers(shape, dtype, 2))
            yield Sample(Where(), arrays, torch, smooth=True)


def convert_samples() -> Iterator[Sample]:
    """Each dtype to each."""
    for source in dtypes.ALL:
        for target in dtypes.ALL:
            values = numbers((7,), source, 1)
            if not target.is_signed and target.kind == "int":
                values = np.abs(values).astype(source.np)
            smooth = source.is_differentiable and target.is_differentiable and target.itemsize >= source.itemsize
            yield Sample(Convert(target), (values,), smooth=smooth)


def _torch(name):
    def call(*operands):
        import torch

        return getattr(torch, name)(*operands)

    return call


TABLE = {"where": where_samples, "convert": convert_samples}
