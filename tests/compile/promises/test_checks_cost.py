"""What a call checks does not grow with the number of modules; whole numbers that vary compile few kernels."""

import sys

import pytest

import jitgrad as jg
from jitgrad.counters import counters
from jitgrad.nn import Linear, Module, ReLU, Sequential, Tanh

SETTLED = 40  # calls, after which none goes another way than the one before: kernels shared by functions are entered
# directly after 16 calls of theirs, whoever made them, and what is remembered of Python's state after as many


class Nested(Module):
    def __init__(self, depth):
        super().__init__()
        self.inner = Nested(depth - 1) if depth else Tanh()

    def forward(self, x):
        return self.inner(x)


def calls_in(f):
    """How many functions a call runs, of Python and of C."""
    count = 0

    def see(frame, event, function):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        f()
    finally:
        sys.setprofile(None)
    return count


def flat(n):
    return Sequential(*[ReLU() if k % 2 else Tanh() for k in range(n)])


@pytest.mark.parametrize("make", [flat, Nested], ids=["side by side", "one in the other"])
def test_checks_do_not_grow_with_the_modules(make):
    x, counts = jg.ones(4), []
    for n in (1, 10, 100):
        model = make(n)
        compiled = jg.compile(lambda x, model=model: model(x))
        for _ in range(SETTLED):
            compiled(x)
        counts.append(calls_in(lambda: compiled(x)))  # noqa: B023
        before = len(compiled.explain().specialisations)
        model.eval()
        compiled(x)
        assert len(compiled.explain().specialisations) > before  # all of them are checked nevertheless
    assert len(set(counts)) == 1, counts


def test_parameters_add_only_that_they_are_fetched():
    x, counts = jg.ones(4), []
    for n in (10, 20, 40):
        compiled = jg.compile(Sequential(*[Linear(4, 4) for _ in range(n)]).eval())
        with jg.no_grad():
            for _ in range(SETTLED):
                compiled(x)
            counts.append(calls_in(lambda: compiled(x)))  # noqa: B023
    assert counts[2] - counts[1] <= 2 * (counts[1] - counts[0]) <= 2 * 20


@pytest.mark.parametrize("where", ["argument", "attribute", "global"])
def test_fifty_whole_numbers_compile_two_kernels(where):
    class Settings:
        step = 0

    settings = Settings()

    def of_argument(x, n):
        return (x * n + n).tanh() - n

    def of_attribute(x, n):
        return (x * settings.step + settings.step).tanh() - settings.step

    space = {}
    exec("STEP = 0\ndef of_global(x, n):\n    return (x * STEP + STEP).tanh() - STEP", space)
    f = {"argument": of_argument, "attribute": of_attribute, "global": space["of_global"]}[where]
    compiled, x = jg.compile(f), jg.ones(1003)
    before = counters.graphs
    for n in range(50):
        settings.step = space["STEP"] = n + 3
        given = n + 3 if where == "argument" else 0
        assert jg.allclose(compiled(x, given), f(x, given))
    assert counters.graphs - before <= 2
