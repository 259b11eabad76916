"""Floats among the arguments are numbers that each call gives: few traces, two kernels at most."""

import datetime
import decimal
import json
import math
import statistics
import time

import numpy as np
import pytest
from programs_compared import agree

import jitgrad as jg
from jitgrad.backend import counters

X = jg.tensor(np.linspace(-2, 3, 24, dtype="f4").reshape(4, 6))


def test_fifty_floats():
    @jg.compile
    def f(x, scale, *, shift=0.0):
        return (x * scale + shift).tanh() / (1 + scale * scale) - scale

    before = counters.kernels
    for k in range(50):
        s, t = k / 7 - 2, k * 1.5
        want = np.tanh(X.numpy() * np.float32(s) + np.float32(t)) / np.float32(1 + s * s) - np.float32(s)
        np.testing.assert_allclose(f(X, s, shift=t).numpy(), want, rtol=2e-5, atol=1e-5)
    assert counters.kernels - before <= 2
    assert len(f.explain().specialisations) <= 3


def test_a_rate_that_is_an_argument():
    def program(compile):
        w = jg.tensor(np.linspace(0.5, 1, 6, dtype="f4"), requires_grad=True)

        @compile
        def step(x, lr, decay=0.0):
            loss = ((x * w).tanh() ** 2).mean()
            (g,) = jg.autograd.grad(loss, w)
            with jg.no_grad():
                w.mul_(1 - lr * decay)
                w.sub_(lr * g)
            return loss, lr * 2

        for k in range(8):
            yield step(X, 0.1 / (k + 1)), w
            yield step(X, 0.1 / (k + 1), decay=0.01 * k), w
        if hasattr(step, "explain"):
            assert len(step.explain().specialisations) == 4

    agree(program)


USES = {
    "a branch": lambda x, s: x * s if s > 0.5 else x - s,
    "truth": lambda x, s: x * s if s else x,
    "a loop": lambda x, s: x * s + sum(1 for _ in range(3) if s >= 1),
    "division": lambda x, s: x + 1 / (s + 10.0) + s / 3,
    "a square root": lambda x, s: x * math.sqrt(abs(s)),
    "a power": lambda x, s: x * s**2 + 2**s,
    "rounding": lambda x, s: x * round(s) + int(s),
    "text": lambda x, s: (x * s, f"{s:.3f}", str(s)),
    "a size": lambda x, s: x[: int(abs(s)) + 1] * s,
    "a minimum": lambda x, s: x * min(s, 1.0) + max(0.0, s),
    "a limit": lambda x, s: x.clamp(min=s),
    "full": lambda x, s: x + jg.full((6,), s),
    "NumPy": lambda x, s: x * float(np.float64(s) * 2) + float(np.sqrt(np.array(abs(s)))),
    "a key": lambda x, s: x * {s: 3.0}[s],
    "equality": lambda x, s: x * 2 if s == 1.5 or s is None or s != s else x,
    "an integer tensor": lambda x, s: x.long() * s + x.int() / (s + 10.0),
    "half": lambda x, s: (x.half() * s, x.bfloat16() + s),
    "a type": lambda x, s: x * s if isinstance(s, float) else x,
    "an exact type": lambda x, s: x * s if type(s) is float else x,
    "negation": lambda x, s: (x * -s, +s - 1.0, 2.0 - s, 3 * s),
    "where": lambda x, s: jg.where(x > s, x, s),
    "a comparison": lambda x, s: (x > s).sum() + (s < x).sum(),
    "addition": lambda x, s: jg.add(x, x, alpha=s),
    "lerp": lambda x, s: x.lerp(x + 1, s),
    "in place": lambda x, s: x.clone().mul_(s).add_(s),
    "item": lambda x, s: x * s + jg.tensor(s),
}


@pytest.mark.parametrize("name", USES)
def test_every_use_is_right(name):
    use = USES[name]

    def program(compile):
        f = compile(lambda x, s: use(x, s))
        for s in (0.25, 1.5, 2.5, 0.0, -1.25, 1.5, 7.75, 0.25):
            yield f(X, s)
        yield f(X, 2)

    agree(program)


def test_what_python_raises():
    f = jg.compile(lambda x, s: x * (1 / s))
    for _ in range(2):
        for s in (2.0, 4.0, 5.0):
            assert f(jg.ones(2), s).tolist() == pytest.approx([1 / s] * 2)
        with pytest.raises(ZeroDivisionError):
            f(jg.ones(2), 0.0)


def test_numbers_that_are_kept_by_python():
    def program(compile):
        class Holder:
            last = None

        holder, seen = Holder(), []

        @compile
        def f(x, s):
            holder.last = s
            return x * s

        @compile
        def g(x, s):
            seen.append(s)
            return x * s, s

        for k in range(8):
            yield f(X, k / 2), holder.last, type(holder.last) is float
            yield g(X, k / 4), seen, [type(s) is float for s in seen]

    agree(program)


def test_attributes_that_are_only_written():
    def program(compile):
        class Holder:
            flag = 0

        holder = Holder()

        @compile
        def f(x):
            holder.flag = 5
            return x * 2

        for k in range(5):
            holder.flag = k
            yield f(X), holder.flag

    agree(program)


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
@pytest.mark.parametrize(
    "f",
    [
        lambda x, s: (x * s, json.dumps({"s": s})),
        lambda x, s: (x * s, str(decimal.Decimal(s))),
        lambda x, s: x * statistics.mean([s, 1.0]),
        lambda x, s: x * datetime.timedelta(seconds=s).total_seconds(),
        lambda x, s: (x * s, time.sleep(s * 1e-6)),
    ],
)
def test_functions_that_take_only_floats(f):
    compiled = jg.compile(f)
    for s in (0.5, 1.5, 2.5, 0.5, 1.5):
        x = jg.arange(3.0)
        want, got = f(x, s), compiled(x, s)
        assert str(got) == str(want)


def test_errors_with_numbers_leave_what_eager_code_leaves():
    seen = []

    @jg.compile
    def f(x, s):
        seen.append(s)
        x.add_(s)
        raise KeyError(s)

    x = jg.zeros(2)
    for n, s in enumerate((0.5, 1.5, 2.5)):
        with pytest.raises(KeyError):
            f(x, s)
        assert len(seen) == n + 1
    assert x.tolist() == [4.5, 4.5]
