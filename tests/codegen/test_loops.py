"""The loop-level IR itself: its text, its rules, its interpreter."""

import numpy as np
import pytest
from codegen.kernels import ZERO, I, pointwise

from jitgrad.codegen.loops.analysis import step, stride
from jitgrad.codegen.loops.interpret import interpret
from jitgrad.codegen.loops.ir import (
    Buffer,
    Init,
    Kernel,
    Loop,
    Store,
    Update,
    acc_ref,
    load,
    loop_var,
    param,
    slot,
)  # fmt: skip
from jitgrad.codegen.loops.printer import canonical_text, print_kernel
from jitgrad.codegen.loops.verify import verify_kernel
from jitgrad.ir import dtypes, scalar
from jitgrad.ir.errors import InternalError
from jitgrad.ir.scalar import Expr, Fn, arg, const, intern_expr, size

F32, F64, I64, I32, BOOL, C64 = (
    dtypes.float32, dtypes.float64, dtypes.int64, dtypes.int32, dtypes.bool_, dtypes.complex64,
)  # fmt: skip
J = loop_var("j")
X = load(0, F32, I)


IN_OUT = (Buffer(F32, "in"), Buffer(F32, "out"))


def kernel(*body, buffers=IN_OUT, slots=2, params=(F32,)):
    return Kernel(buffers, slots, params, body)


def loop(*body, var=I, kind="serial", start=ZERO, stop=None):
    return Loop(var, start, slot(0) if stop is None else stop, body, kind)


def mean_of_rows():
    acc, x = acc_ref(0, F32), load(0, F32, I * slot(1) + J)
    return kernel(
        loop(
            Init(0, const(0.0, F32)),
            loop(Update((0,), (acc + x,)), var=J, kind="vector", stop=slot(1)),
            Store(1, I, scalar.maximum(acc / param(0, F32), -acc)),
            kind="parallel",
        )
    )


def test_text():
    assert print_kernel(mean_of_rows()) == (
        "kernel(b0: in f32, b1: out f32; 2 slots; p0: f32)\n"
        "  parallel i in [0, s0):\n"
        "    acc0: f32 = 0.0:f32\n"
        "    vector j in [0, s1):\n"
        "      acc0 <- (acc0 + b0[((i * s1) + j)])\n"
        "    b1[i] = max((acc0 / p0), neg(acc0))\n"
    )


def test_text_names_shared_expressions_and_stays_linear():
    value = X
    for _ in range(200):
        value = value * value
    lines = print_kernel(kernel(loop(Store(1, I, value)))).splitlines()
    assert len(lines) == 203 and max(map(len, lines[1:])) < 30
    assert lines[2:4] == ["    t0 = b0[i]", "    t1 = (t0 * t0)"]


def test_how_far_an_index_moves_is_asked_once_of_each_expression():
    affine, chosen = I, I
    for _ in range(200):  # each stands in the next one twice
        affine = affine + affine - affine
        chosen = scalar.apply(Fn.SELECT, scalar.apply(Fn.LT, chosen, size(0)), chosen, chosen + 1)
    assert stride(affine, I) == 1 and stride(chosen, I) is None and step(chosen, I) is None


def test_text_of_deep_expressions():
    value = X
    for _ in range(5000):
        value = value * 0.5 + X
    assert max(map(len, print_kernel(kernel(loop(Store(1, I, value)))).splitlines())) < 800


def test_canonical_text_forgets_names_and_nothing_else():
    def with_names(outer, inner, factor):
        i, j = loop_var(outer), loop_var(inner)
        store = Store(1, i, load(0, F32, i * slot(1) + j) * factor)
        return kernel(loop(loop(store, var=j, stop=slot(1)), var=i))

    text = canonical_text(with_names("i", "j", 2.0))
    assert text == canonical_text(with_names("row", "column", 2.0))
    assert text != canonical_text(with_names("i", "j", 2.5))
    assert canonical_text(pointwise([F32], lambda x: x + 0.0)) != canonical_text(pointwise([F32], lambda x: x + -0.0))
    convert = [canonical_text(pointwise([F32], lambda x, d=d: scalar.convert(x, d))) for d in (F64, I32)]
    assert convert[0] != convert[1]


def test_verifier_accepts_what_is_right():
    verify_kernel(mean_of_rows())
    verify_kernel(pointwise([F32, F32], lambda a, b: scalar.where(a < b, a, scalar.tanh(b))))


def expr(fn, dtype, *args):
    return intern_expr(Expr, dtype, fn, args)


COMPLEX_LOAD = load(0, C64, I)
INVALID = {
    "unknown role": kernel(buffers=(Buffer(F32, "temporary"),)),
    "a length belongs to local": kernel(buffers=(Buffer(F32, "in", 5),)),
    "one parallel loop at most": kernel(loop(loop(Store(1, J, X), var=J, kind="parallel"))),
    "store outside the parallel loop": kernel(loop(Store(1, I, X), kind="parallel"), Store(1, ZERO, param(0, F32))),
    "folds into an accumulator from outside": kernel(
        Init(0, const(0.0, F32)), loop(Update((0,), (acc_ref(0, F32) + X,)), kind="parallel")
    ),
    "unknown kind of loop": kernel(loop(kind="fast")),
    "already in use": kernel(loop(loop(Store(1, I, X)))),
    "a vector loop inside": kernel(loop(loop(Store(1, J, X), var=J, kind="vector"), kind="vector")),
    "are not int64": kernel(loop(stop=const(3, I32))),
    "once, with one value each": kernel(Init(0, const(0.0, F32)), Update((0, 0), (const(0.0, F32),) * 2)),
    "the value given to it is": kernel(Init(0, const(0.0, F32)), Update((0,), (const(0, I32),))),
    "where no Init declares it": kernel(loop(Init(0, const(0.0, F32))), Store(1, ZERO, acc_ref(0, F32))),
    "there is no buffer b7": kernel(Store(7, ZERO, const(0.0, F32))),
    "there is no buffer b8": kernel(Store(1, ZERO, load(8, F32, ZERO))),
    "cannot be stored to": kernel(Store(0, ZERO, const(0.0, F32))),
    "an index of b1 is i32": kernel(Store(1, const(0, I32), const(0.0, F32))),
    "an index of b0 is i32": kernel(Store(1, ZERO, load(0, F32, const(0, I32)))),
    "the value stored is f64": kernel(Store(1, ZERO, const(0.0, F64))),
    "not a slot or a param": kernel(loop(Store(1, I, X), stop=size(5))),
    "read outside its loop": kernel(Store(1, ZERO, X)),
    "there is no slot s2": kernel(loop(stop=slot(2))),
    "there is no param p0 of type f64": kernel(Store(1, ZERO, scalar.convert(param(0, F64), F32))),
    "acc0 is read as f64": kernel(Init(0, const(0.0, F32)), Store(1, ZERO, scalar.convert(acc_ref(0, F64), F32))),
    "b0 is read as f64": kernel(Store(1, ZERO, scalar.convert(load(0, F64, ZERO), F32))),
    "takes a bool mask": kernel(Store(1, ZERO, load(0, F32, ZERO, const(1, I32), const(0.0, F32)))),
    "has no place in a kernel": kernel(Store(1, ZERO, arg(0, F32))),
    "takes 2 operands": kernel(loop(Store(1, I, expr(Fn.ADD, F32, X)))),
    "pairs of reals": kernel(
        loop(Store(1, I, expr(Fn.ADD, C64, COMPLEX_LOAD, COMPLEX_LOAD))),
        buffers=(Buffer(C64, "in"), Buffer(C64, "out")),
    ),
    "changes the width": kernel(loop(Store(1, I, scalar.convert(expr(Fn.BITCAST, F64, X), F32)))),
    "condition of a select": kernel(loop(Store(1, I, expr(Fn.SELECT, F32, X, X, X)))),
    "cannot give f64": kernel(loop(Store(1, I, scalar.convert(expr(Fn.ADD, F64, X, X), F32)))),
    "cannot give bool": kernel(loop(Store(1, I, scalar.convert(expr(Fn.LT, BOOL, X, const(1.0, F64)), F32)))),
    "exp takes floats": kernel(loop(Store(1, I, scalar.convert(expr(Fn.EXP, I64, I), F32)))),
    "takes integers or bools": kernel(loop(Store(1, I, expr(Fn.XOR, F32, X, X)))),
}  # fmt: skip


@pytest.mark.parametrize("rule", INVALID)
def test_verifier_names_the_broken_rule(rule):
    with pytest.raises(InternalError, match=rule) as caught:
        verify_kernel(INVALID[rule])
    assert "kernel(b0" in str(caught.value)


def test_interpreter_runs_rows():
    x = np.arange(12, dtype="f")
    out = np.zeros(3, "f")
    interpret(mean_of_rows(), [x, out], [3, 4], [4.0], span=(1, 3))
    np.testing.assert_array_equal(out, [0, 5.5, 9.5])


def test_interpreter_computes_all_values_of_an_update_first():
    a, b = acc_ref(0, I64), acc_ref(1, I64)
    body = (
        Init(0, ZERO), Init(1, const(1)), loop(Update((0, 1), (b, a + b))), Store(0, ZERO, a),
    )  # fmt: skip
    out = np.zeros(1, "q")
    fibonacci = kernel(*body, buffers=(Buffer(I64, "out"),), params=())
    verify_kernel(fibonacci)
    interpret(fibonacci, [out], [10, 0])
    assert out[0] == 55


@pytest.mark.parametrize("index", [I + 1, I - 1])
def test_interpreter_refuses_to_read_outside(index):
    bad = kernel(loop(Store(1, I, load(0, F32, index)), kind="vector"))
    with pytest.raises(InternalError, match="outside b0 of 4 elements"):
        interpret(bad, [np.zeros(4, "f"), np.zeros(4, "f")], [4, 0], [0.0])
