"""Each rule of the algebra: what it makes of an expression, and that it keeps each bit of awkward numbers."""

import ast
import itertools
import warnings

import numpy as np
import pytest
from properties.comparison import assert_same_bits

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.interpreter import run
from jitgrad.ir.ops import REGISTRY
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.passes import EliminateDeadCode, simplification
from jitgrad.ir.printer import canonical_text
from jitgrad.ir.types import TensorType
from jitgrad.ir.verify import verify

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.7, np.inf, -np.inf, np.nan, 5e-324, -1e-45, 1e38, 1e300)
INTEGERS = (0, 1, -1, 2, 7, -(2**63), 2**63 - 1, 2**31 - 1, 128, 255)
AWKWARD = {"float": FLOATS, "complex": FLOATS, "int": INTEGERS, "bool": (False, True)}
SHAPE = (16, 1, 16)


class Expression:
    """Builds `add(x, neg(y))` as a graph of inputs x and y of `dtype`, and c and d of bool.

    Numbers become a `Full` of the dtype of the tensors beside them; keywords are an op's fields.
    """

    def __init__(self, dtype):
        self.b = Builder()
        self.inputs = {n: self.b.input(TensorType(SHAPE, dtype), n) for n in "xy"}
        self.inputs |= {n: self.b.input(TensorType(SHAPE, dtypes.bool_), n) for n in "cd"}

    def graph(self, text):
        outputs = [self.value(ast.parse(text, mode="eval").body)]
        return EliminateDeadCode().run(self.b.build(outputs))

    def value(self, tree):
        if isinstance(tree, ast.Name):
            return self.inputs[tree.id]
        fields = {k.arg: self.field(k.value) for k in tree.keywords}
        given = [self.number(a) for a in tree.args]
        made = [self.value(a) if n is None else None for a, n in zip(tree.args, given, strict=True)]
        beside = next((v.type for v in reversed(made) if v is not None), TensorType(SHAPE, dtypes.bool_))
        operands = [self.full(n, beside) if v is None else v for n, v in zip(given, made, strict=True)]
        return self.b(REGISTRY[tree.func.id](**fields), *operands)

    def full(self, number, type):
        return self.b(Full(type.shape, dtypes.bool_ if isinstance(number, bool) else type.dtype, number))

    def number(self, tree):
        try:
            return ast.literal_eval(tree)
        except ValueError:
            return None

    def field(self, tree):
        return dtypes.by_short(tree.id) if isinstance(tree, ast.Name) else ast.literal_eval(tree)


def awkward(dtype, is_outer):
    """The awkward numbers of `dtype`, so that two such arrays hold all pairs."""
    with np.errstate(all="ignore"):
        numbers = np.asarray(AWKWARD[dtype.kind]).astype(dtype.np)
    pairs = np.array(list(itertools.product(numbers, numbers)))
    return np.resize(pairs[:, int(is_outer)], SHAPE).astype(dtype.np)


F, D, HALF, C, N, U, B = "f32", "f64", "f16", "c64", "i64", "u8", "bool"
CASES = [
    # Sums and products
    (F, "add(x, -0.0)", "x"),
    (F, "add(-0.0, x)", "x"),
    (F, "add(x, 0.0)", "add(x, 0.0)"),  # -0.0 becomes 0.0
    (N, "add(x, 0)", "x"),
    (C, "add(x, 0.0)", "add(x, 0.0)"),
    (F, "add(x, neg(y))", "sub(x, y)"),
    (F, "add(neg(x), y)", "sub(y, x)"),
    (F, "sub(x, 0.0)", "x"),
    (F, "sub(x, -0.0)", "sub(x, -0.0)"),
    (F, "sub(-0.0, x)", "neg(x)"),
    (F, "sub(0.0, x)", "sub(0.0, x)"),
    (N, "sub(0, x)", "neg(x)"),
    (F, "sub(x, neg(y))", "add(x, y)"),
    (F, "sub(x, x)", "sub(x, x)"),  # of infinity and NaN
    (N, "add(sub(x, x), y)", "y"),
    (F, "mul(x, 1.0)", "x"),
    (HALF, "mul(x, 1.0)", "x"),
    (N, "mul(1, x)", "x"),
    (F, "mul(x, -1.0)", "neg(x)"),
    (U, "mul(x, 255)", "mul(x, 255)"),
    (F, "mul(x, 0.0)", "mul(x, 0.0)"),
    (F, "mul(0.0, x)", "mul(x, 0.0)"),
    (N, "add(mul(x, 0), y)", "y"),
    (F, "mul(neg(x), neg(y))", "mul(x, y)"),
    (B, "mul(x, x)", "x"),
    (B, "mul(x, True)", "x"),
    (F, "div(x, 1.0)", "x"),
    (D, "div(x, -1.0)", "neg(x)"),
    (F, "div(neg(x), neg(y))", "div(x, y)"),
    (F, "div(x, x)", "div(x, x)"),
    (F, "pow(x, 1.0)", "x"),
    (F, "mul(pow(x, 0.0), y)", "y"),
    (N, "floor_divide(x, 1)", "x"),
    (F, "floor_divide(x, 1.0)", "floor_divide(x, 1.0)"),
    (N, "add(remainder(x, 1), y)", "y"),
    # Signs and rounding
    (F, "neg(neg(x))", "x"),
    (N, "neg(neg(neg(x)))", "neg(x)"),
    (C, "conj(conj(x))", "x"),
    (F, "abs(neg(x))", "abs(x)"),
    (F, "abs(abs(x))", "abs(x)"),
    (U, "abs(x)", "x"),
    (F, "sign(sign(x))", "sign(x)"),
    (F, "floor(ceil(x))", "ceil(x)"),
    (F, "round(trunc(x))", "trunc(x)"),
    (N, "floor(x)", "x"),
    (F, "maximum(x, x)", "x"),
    (F, "maximum(1.0, x)", "maximum(1.0, x)"),  # 0.0 and -0.0 keep their order
    (N, "maximum(1, x)", "maximum(x, 1)"),
    # Comparisons
    (F, "eq(x, x)", "eq(x, x)"),
    (F, "ne(x, x)", "isnan(x)"),
    (F, "le(x, x)", "le(x, x)"),
    (F, "logical_or(lt(x, x), c)", "c"),
    (N, "logical_and(eq(x, x), c)", "c"),
    (N, "logical_or(ne(x, x), c)", "c"),
    (N, "logical_and(isfinite(x), c)", "c"),
    (N, "logical_or(isnan(x), c)", "c"),
    (B, "eq(x, True)", "x"),
    (B, "eq(x, False)", "logical_not(x)"),
    (B, "ne(False, x)", "x"),
    # Selection
    (F, "where(True, x, y)", "x"),
    (F, "where(False, x, y)", "y"),
    (F, "where(c, x, x)", "x"),
    (F, "where(c, where(c, x, 1.0), y)", "where(c, x, y)"),
    (F, "where(c, x, where(c, 1.0, y))", "where(c, x, y)"),
    (F, "where(d, x, where(c, 1.0, y))", "where(d, x, where(c, 1.0, y))"),
    (F, "where(logical_not(c), x, y)", "where(c, y, x)"),
    (B, "where(c, True, False)", "c"),
    (B, "where(c, False, True)", "logical_not(c)"),
    # Truth and bits
    (B, "logical_not(logical_not(x))", "x"),
    (F, "logical_not(logical_not(x))", "logical_not(logical_not(x))"),
    (F, "logical_not(eq(x, y))", "ne(x, y)"),
    (F, "logical_not(ne(x, y))", "eq(x, y)"),
    (F, "logical_not(lt(x, y))", "logical_not(lt(x, y))"),  # of NaN
    (B, "logical_and(True, x)", "x"),
    (B, "logical_or(x, x)", "x"),
    (B, "logical_xor(x, True)", "logical_not(x)"),
    (B, "logical_xor(x, False)", "x"),
    (N, "bitwise_and(x, -1)", "x"),
    (U, "bitwise_and(x, 255)", "x"),
    (N, "bitwise_or(x, 0)", "x"),
    (N, "bitwise_or(x, x)", "x"),
    (N, "add(bitwise_and(x, 0), y)", "y"),
    (N, "bitwise_xor(x, -1)", "bitwise_not(x)"),
    (N, "add(bitwise_xor(x, x), y)", "y"),
    (B, "bitwise_xor(x, True)", "bitwise_not(x)"),
    (N, "bitwise_not(bitwise_not(x))", "x"),
    (N, "shift_left(x, 0)", "x"),
    # Conversions
    (F, "convert(x, dtype=f32)", "x"),
    (F, "convert(convert(x, dtype=f64), dtype=f32)", "x"),
    (D, "convert(convert(x, dtype=f32), dtype=f64)", "convert(convert(x, dtype=f32), dtype=f64)"),
    (HALF, "convert(convert(x, dtype=f32), dtype=f64)", "convert(x, dtype=f64)"),
    (HALF, "convert(convert(x, dtype=bf16), dtype=f16)", "convert(convert(x, dtype=bf16), dtype=f16)"),
    (F, "convert(convert(x, dtype=c64), dtype=f32)", "x"),
    (U, "convert(convert(x, dtype=i64), dtype=i8)", "convert(x, dtype=i8)"),
    (N, "convert(convert(x, dtype=f64), dtype=i64)", "convert(convert(x, dtype=f64), dtype=i64)"),
    (B, "convert(convert(x, dtype=f16), dtype=i32)", "convert(x, dtype=i32)"),
    (F, "real(complex(x, y))", "x"),
    (F, "imag(complex(x, y))", "y"),
    (C, "complex(real(x), imag(x))", "x"),
    # Reductions of axes of length 1
    (F, "amax(x, axes=(1,))", "reshape(x, shape=(16, 16))"),
    (F, "amin(x, axes=(1,), keepdim=True)", "x"),
    (F, "prod(x, axes=(1,))", "reshape(x, shape=(16, 16))"),
    (F, "sum(x, axes=(1,))", "sum(x, axes=(1,))"),  # of -0.0 it is 0.0
    (N, "sum(x, axes=())", "x"),
    (B, "any(x, axes=(1,), keepdim=True)", "x"),
    (F, "argmax(x, axes=(1,))", "argmax(x, axes=(1,))"),
    # Views
    (F, "reshape(reshape(x, shape=(256,)), shape=(16, 1, 16))", "x"),
    (F, "permute(permute(x, perm=(1, 2, 0)), perm=(2, 0, 1))", "x"),
    (F, "permute(permute(x, perm=(1, 2, 0)), perm=(1, 2, 0))", "permute(x, perm=(2, 0, 1))"),
    (F, "flip(flip(x, axes=(0, 2)), axes=(2,))", "flip(x, axes=(0,))"),
    (F, "flip(x, axes=(1,))", "x"),
    (
        F, "broadcast_to(broadcast_to(x, shape=(16, 3, 16)), shape=(2, 16, 3, 16))",
        "broadcast_to(x, shape=(2, 16, 3, 16))",
    ),
    (F, "slice(x, starts=(0, 0, 0), sizes=(16, 1, 16), steps=(1, 5, 1))", "x"),
    (
        F, "slice(slice(x, starts=(15, 0, 1), sizes=(8, 1, 5), steps=(-2, 1, 3)), "
        "starts=(1, 0, 4), sizes=(3, 1, 5), steps=(2, 1, -1))",
        "slice(x, starts=(13, 0, 13), sizes=(3, 1, 5), steps=(-4, 1, -3))",
    ),
    (
        F, "flip(slice(x, starts=(2, 0, 0), sizes=(8, 1, 16), steps=(1, 1, 1)), axes=(0,))",
        "slice(x, starts=(9, 0, 0), sizes=(8, 1, 16), steps=(-1, 1, 1))",
    ),
    # Joins
    (F, "concat(x, axis=0)", "x"),
    (F, "concat(concat(x, y, axis=0), x, axis=0)", "concat(x, y, x, axis=0)"),
    (F, "concat(concat(x, y, axis=0), concat(y, x, axis=0), axis=1)",
     "concat(concat(x, y, axis=0), concat(y, x, axis=0), axis=1)"),
    (F, "concat(slice(x, starts=(0, 0, 0), sizes=(0, 1, 16), steps=(1, 1, 1)), y, axis=0)", "y"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "before", "after"), CASES, ids=[f"{d} {b}" for d, b, _ in CASES])
def test_rule(dtype, before, after):
    dtype = dtypes.by_short(dtype)
    graph, expected = Expression(dtype).graph(before), Expression(dtype).graph(after)
    simplified = simplification().run(graph)
    verify(simplified)
    assert canonical_text(simplified) == canonical_text(expected)
    kinds = (dtype, dtype, dtypes.bool_, dtypes.bool_)
    arrays = [awkward(kind, i % 2) for i, kind in enumerate(kinds)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for a, b in zip(run(simplified, arrays), run(graph, arrays), strict=True):
            assert_same_bits(a, b)
