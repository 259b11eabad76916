"""Random well-typed kernels: machine code gives the interpreter's bits, in vectors, under masks and one at a time."""

import hypothesis.strategies as st
import numpy as np
from codegen.kernels import ZERO, I, all_options, equal, run_both, sample
from hypothesis import HealthCheck, given, settings

from jitgrad.codegen.cpu.options import EmitOptions
from jitgrad.codegen.loops.ir import Buffer, Init, Kernel, Loop, Store, Update, acc_ref, load, loop_var, slot
from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Fn, apply, const, convert, where

TYPES = (dtypes.bool_, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.float16, dtypes.float32, dtypes.float64)
ARITHMETIC = (Fn.ADD, Fn.SUB, Fn.MUL)
BITS = (Fn.AND, Fn.OR, Fn.XOR)
SIZE = 75
STRICT = [EmitOptions("strict", o.vector_bits, o.masked_tails) for o in all_options()[:2]]
J = loop_var("j")


@st.composite
def expressions(draw, leaves):
    """A DAG over `leaves`: every step takes earlier values, so that they are shared."""
    values = list(leaves)
    for _ in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from(values))
        same = [v for v in values if v.dtype is x.dtype]
        y = draw(st.sampled_from(same))
        match draw(st.sampled_from(["arithmetic", "compare", "select", "convert", "negate", "constant"])):
            case "arithmetic":
                fn = draw(st.sampled_from(BITS if x.dtype is dtypes.bool_ else ARITHMETIC))
                values.append(apply(fn, x, y))
            case "compare":
                values.append(apply(draw(st.sampled_from(sorted(scalar.COMPARISONS, key=str))), x, y))
            case "select":
                conditions = [v for v in values if v.dtype is dtypes.bool_] or [x.ne(y)]
                values.append(where(draw(st.sampled_from(conditions)), x, y))
            case "convert":
                targets = [d for d in TYPES if d.is_floating_point or not x.dtype.is_floating_point]
                values.append(convert(x, draw(st.sampled_from(targets))))
            case "negate":
                values.append(~x if x.dtype is dtypes.bool_ else -x)
            case "constant":
                values.append(apply(Fn.MAX, x, const(3, x.dtype)) if x.dtype.kind == "int" else x)
    return values[-1]


def loads(draw):
    chosen = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    strides = draw(st.lists(st.sampled_from([1, 1, 1, 2, 0, -1]), min_size=len(chosen), max_size=len(chosen)))
    index = {0: ZERO, 1: I, 2: I * 2, -1: slot(1) - I}
    return chosen, [load(k, d, index[s]) for k, (d, s) in enumerate(zip(chosen, strides))]


def agree(kernel, arrays, slots):
    with np.errstate(all="ignore"):
        for options in STRICT:
            native, expected = run_both(kernel, arrays, slots, options=options)
            assert all(equal(a, b) for a, b in zip(native, expected))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_pointwise(data):
    chosen, leaves = loads(data.draw)
    value = data.draw(expressions(leaves))
    buffers = (*(Buffer(d, "in") for d in chosen), Buffer(value.dtype, "out"))
    body = (Loop(I, ZERO, slot(0), (Store(len(chosen), I, value),), data.draw(st.sampled_from(["vector", "serial"]))),)
    arrays = [sample(d, 2 * SIZE, k) for k, d in enumerate(chosen)]
    agree(Kernel(buffers, 2, (), body), [*arrays, np.zeros(SIZE, value.dtype.np)], [SIZE, SIZE - 1])


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_rows_folded_and_used(data):
    """acc = fold of a row; out[j, i] = g(acc, element), with everything that is invariant hoisted."""
    chosen, leaves = loads(data.draw)
    value = data.draw(expressions(leaves))
    acc = acc_ref(0, value.dtype)
    fn = data.draw(st.sampled_from((Fn.MIN, Fn.MAX) if value.dtype is not dtypes.bool_ else (Fn.AND, Fn.OR)))
    result = data.draw(expressions([*leaves, acc, acc]))
    start = const({"bool": True, "int": 5, "float": 0.5}[value.dtype.kind], value.dtype)
    out = len(chosen)
    row = (
        Init(0, start),
        Loop(I, ZERO, slot(0), (Update((0,), (apply(fn, acc, value),)),), "vector"),
        Loop(I, ZERO, slot(0), (Store(out, J * slot(0) + I, result),), "vector"),
    )
    buffers = (*(Buffer(d, "in") for d in chosen), Buffer(result.dtype, "out"))
    arrays = [sample(d, 2 * SIZE, k) for k, d in enumerate(chosen)]
    for a in arrays:
        a[a == 0] = 0 if a.dtype.kind != "f" else 1  # which of two zeros is smaller is nobody's business
    kernel = Kernel(buffers, 3, (), (Loop(J, ZERO, slot(2), row),))
    agree(kernel, [*arrays, np.zeros(2 * SIZE, result.dtype.np)], [SIZE, SIZE - 1, 2])
