"""Python's ways of making and calling functions: compiled equals eager on each call, small and large, from threads."""

import asyncio
import functools
import threading
import warnings

import numpy as np
import pytest

import jitgrad as jg

SMALL = jg.tensor(np.linspace(-2, 3, 12, dtype="f4").reshape(3, 4))
LARGE = jg.tensor(np.linspace(-2, 3, 90_000, dtype="f4").reshape(300, 300))


def flat(x):
    if isinstance(x, (list, tuple)):
        return [y for item in x for y in flat(item)]
    return [np.array(x.detach().numpy())] if isinstance(x, jg.Tensor) else [x]


def same(got, want):
    for g, w in zip(flat(got), flat(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=1e-5)


def everywhere(make):
    """`make(compile)` gives a function of a tensor: called several times with changing data, then from threads."""
    eager, compiled = make(lambda f: f), make(jg.compile)
    inputs = [scale * x for x in (SMALL, LARGE) for scale in (1.0, -0.5, 2.0)]
    wanted = [eager(x) for x in inputs]
    for _ in range(2):
        for x, want in zip(inputs, wanted, strict=True):
            same(compiled(x), want)
    errors = []

    def work(f):
        try:
            for x, want in zip(inputs, wanted, strict=True):
                same(f(x), want)
        except BaseException as error:
            errors.append(error)

    fresh = make(jg.compile)  # compiled by several threads at once
    threads = [threading.Thread(target=work, args=(f,)) for f in (compiled, fresh, fresh, fresh)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]


def generators(compile):
    def parts(x, n):
        for k in range(n):
            yield x * k

    return compile(lambda x: sum(parts(x, 3)) + sum(y.sum() for y in parts(x, 2)))


def comprehensions(compile):
    def f(x):
        rows = [row * i for i, row in enumerate(x[:2])]
        named = {i: row.tanh() for i, row in enumerate(rows)}
        return rows, jg.stack([named[k] for k in sorted(named)]), {v.ndim for v in rows} == {1}

    return compile(f)


def recursion(compile):
    def power(x, n):
        return x if n == 1 else power(x, n - 1) * x * 0.5

    def halved(x):
        return x if x.abs().max() < 1 else halved(x / 2)

    return compile(lambda x: (power(x, 4), halved(x)))


def recursion_of_a_compiled_function(compile):
    @compile
    def f(x, n=3):
        return x if n == 0 else f(x.tanh() + 1, n - 1)

    return f


def nested(compile):
    inner = compile(lambda x: x.exp() * 0.01)
    middle = compile(lambda x: inner(x) + inner(x * 0.5))
    return compile(lambda x: middle(x).sin() + inner(x))


def recreated(compile):
    return lambda x: compile(lambda y: y.tanh() * 3 + 1)(x)


def made_in_a_loop(compile):
    functions = [compile(lambda x, k=k: x * k + k) for k in range(3)]
    return lambda x: [f(x) for f in functions]


def methods(compile):
    class Scaled:
        bias = 2.0

        def __init__(self, k):
            self.k = k

        @compile
        def plain(self, x):
            return x * self.k + self.bias

        @classmethod
        @compile
        def of_class(cls, x):
            return x - cls.bias

        @staticmethod
        @compile
        def of_none(x):
            return x.abs().sqrt()

        @property
        def function(self):
            return compile(self.plain)

    a, b = Scaled(2.0), Scaled(-1.5)
    return lambda x: (a.plain(x), b.plain(x), Scaled.of_class(x), a.of_none(x), b.function(x), compile(b.plain)(x))


def partials(compile):
    def f(a, x, *, scale, shift=1.0):
        return a * x * scale + shift

    half = functools.partial(f, jg.tensor(0.5), scale=3.0)
    return compile(functools.partial(half, shift=-1.0))


def callable_objects(compile):
    class Affine:
        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            return x * self.w + 1

    return compile(Affine(jg.tensor(2.5)))


def decorators(compile):
    def doubled(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs) * 2

        return wrapper

    @doubled
    @compile
    @doubled
    def f(x):
        """Documented."""
        return x.cos()

    assert f.__doc__ == "Documented." and f.__name__ == "f"
    return f


def closures(compile):
    count, weights = 3, [jg.tensor(1.5), jg.tensor(-0.5)]

    def outer(x):
        total = x

        def add(w):
            nonlocal total
            total = total + w * x

        for w in weights:
            add(w)
        return total * count

    return compile(outer)


def pattern_matching(compile):
    def f(x):
        match x.shape:
            case (3, n):
                return x * n
            case (n, m) if n == m:
                return x.t() + n
        return None

    return compile(f)


def exceptions(compile):
    def f(x):
        try:
            if x.sum() > 0:
                raise ValueError("positive")
            return x @ jg.ones(7)
        except ValueError:
            return x * 2
        except RuntimeError as error:
            return x * len(type(error).__name__)
        finally:
            x = None

    return compile(f)


def unpacking(compile):
    def plain(x):
        first, *rest = x[:3]
        a, b = x.chunk(2, 1)
        return first, rest[-1], jg.cat([b, a], 1), *jg.std_mean(x)

    return compile(plain)


def walrus_and_chains(compile):
    def f(x):
        if (m := x.mean()) > 0 and -10 < m < 10:
            return x - m
        return x if m else -x

    return compile(f)


MAKERS = [
    generators, comprehensions, recursion, recursion_of_a_compiled_function, nested, recreated, made_in_a_loop, methods,
    partials, callable_objects, decorators, closures, pattern_matching, exceptions, unpacking, walrus_and_chains,
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_compiled_equals_eager(make):
    everywhere(make)


def test_async_callers():
    f = jg.compile(lambda x: (x * 2).tanh() + (1 if x.sum() > 0 else -1))

    async def caller(x):
        await asyncio.sleep(0)
        first = f(x)
        await asyncio.sleep(0)
        return first + f(-x)

    async def main():
        return await asyncio.gather(*(caller(SMALL * k) for k in (1, -1, 2, -2)))

    for got in asyncio.run(main()):
        same(got, jg.zeros(3, 4))


def test_recreated_functions_compile_once():
    def make(k):
        return jg.compile(lambda x: (x * k).tanh().sum(1))

    make(2.0)(SMALL), make(3.0)(SMALL)
    with jg.assert_no_compile():
        for k in (2.0, 3.0, 4.0):
            same(make(k)(SMALL), (SMALL * k).tanh().sum(1))


def test_threads_with_states_of_their_own():
    """Grad mode, generators and traces are each thread's own."""
    w = jg.tensor(np.linspace(0.5, 1, 4, dtype="f4"), requires_grad=True)
    f = jg.compile(lambda x: (x * w).tanh() if x.sum() > 0 else x * w)
    wrong = []

    def recording():
        for k in range(30):
            x = SMALL * (1 if k % 2 else -1)
            (g,) = jg.autograd.grad(f(x).sum(), w)
            (want,) = jg.autograd.grad(((x * w).tanh() if x.sum() > 0 else x * w).sum(), w)
            if not jg.allclose(g, want, rtol=1e-4):
                wrong.append("gradient")

    def not_recording():
        with jg.no_grad():
            for k in range(30):
                if f(SMALL * (1 if k % 2 else -1)).requires_grad:
                    wrong.append("mode")

    threads = [threading.Thread(target=t) for t in (recording, not_recording) * 2]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_threads_with_effects():
    seen = []

    @jg.compile
    def f(x):
        seen.append(x.sum().item())
        return x * 2 + 1

    wrong = []

    def work(k):
        for _ in range(12):
            if not jg.equal(f(jg.full((3,), k)), jg.full((3,), 2 * k + 1)):
                wrong.append(k)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work, args=(k,)) for k in (1.0, 2.0, 3.0)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong and sorted(seen) == [3.0] * 12 + [6.0] * 12 + [9.0] * 12
