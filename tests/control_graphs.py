"""Graphs with choices and loops that several tests are about."""

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.control import Cond, Scan, WhileLoop
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.linear import Linear
from jitgrad.ir.ops.math import Tanh
from jitgrad.ir.ops.trigonometry import Sin
from jitgrad.ir.parser import parse
from jitgrad.ir.types import TensorType

F64 = dtypes.float64


def t(*shape, dtype=F64):
    return TensorType(shape, dtype)


def recurrent_body(dtype=F64):
    """A step of tanh(x + h wᵀ + b), which stacks the product of both states."""
    b = Builder()
    h, x = b.input(t(2, 3, dtype=dtype)), b.input(t(2, 3, dtype=dtype))
    w, bias = b.input(t(3, 3, dtype=dtype)), b.input(t(3, dtype=dtype))
    new = b(Tanh(), b(Add(), x, b(Linear(), h, w, bias)))
    return b.build([new, b(Mul(), new, h)])


def scanned(length, reverse=False, with_residuals=False, dtype=F64):
    """The last state and the stack of that body."""
    op = Scan(recurrent_body(dtype), 1, 1, reverse)
    if with_residuals:
        op = op.with_residuals((True,) * 4)
    b = Builder()
    shapes = [(2, 3), (length, 2, 3), (3, 3), (3,)]
    outs = b.emit(op, *[b.input(t(*s, dtype=dtype)) for s in shapes])
    return b.build(outs[:2])


def repeated(limit):
    """x (1 + exp(w)) + k, as long as the sum of x is below `limit`: with a constant, and with something invariant."""
    condition = parse(
        "graph(%x: f64[2], %w: f64[2]) -> (bool[]) { %s = sum[axes=(0,)](%x) : f64[]"
        f" %l = full[shape=(), dtype=f64, value={float(limit)!r}]() : f64[] %c = lt(%s, %l) : bool[] return %c }}"
    )
    body = parse(
        "graph(%x: f64[2], %w: f64[2]) -> (f64[2]) { %k = constant[literal=array(f64[2], [1.0, 1.5])]() : f64[2]"
        " %e = exp(%w) : f64[2] %y = mul(%x, %e) : f64[2] %z = add(%y, %k) : f64[2] return %z }"
    )
    b = Builder()
    x, w = b.input(t(2)), b.input(t(2))
    return b.build([b(WhileLoop(condition, body, 1), x, w)])


def chosen():
    """x² and x, or a constant and sin x, times w."""
    branches = []
    for square in (True, False):
        b = Builder()
        x = b.input(t(2))
        branches.append(b.build([b(Mul(), x, x), x] if square else [b(Sin(), x), b(Sin(), b(Mul(), x, x))]))
    b = Builder()
    predicate, x, w = b.input(t(dtype=dtypes.bool_)), b.input(t(2)), b.input(t(2))
    first, second = b.emit(Cond(*branches), predicate, x)
    return b.build([b(Mul(), first, w), b(Sum((0,)), second)])


def numbers(graph, seed=0, scale=0.5):
    """Normal numbers for a graph's inputs; true for a bool."""
    rng = np.random.default_rng(seed)
    return [
        np.array(True) if v.type.dtype is dtypes.bool_ else np.asarray(scale * rng.normal(size=v.type.shape), v.dtype)
        for v in graph.inputs
    ]
