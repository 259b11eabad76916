"""Numbers that only become part of the result need no cut: one specialisation serves all their values."""

import functools
import itertools

import numpy as np
import pytest
from programs_compared import agree

import jitgrad as jg

X = jg.tensor(np.linspace(-2, 3, 24, dtype="f4").reshape(4, 6))


def _mean(x):
    return x.mean().item()


def _helped(x):
    return x * 2, _mean(x)


def _stored(x):
    with jg.no_grad():
        total = x.sum().item()
    number = float(x.max())
    for _ in range(2):
        x = x + 1
    if total is None:
        return None
    return {"total": total, "rows": [x[0].tolist(), number], "count": (x > 0).sum().item()}, x


class Net(jg.nn.Module):
    def forward(self, x):
        y = x.tanh()
        return y, y.sum().item()


class Loss:
    inner = property(lambda self: self)

    def __call__(self, x):
        return self.total(x)

    def total(self, x):
        return x.sum().item()

    @staticmethod
    def of(x):
        return x.mean().item()

    @classmethod
    def first(cls, x):
        return cls.of(x[0])


def _total(x):
    return float(x.sum())


def _positive(row):
    return int((row > 0).sum())


CALLED_BY_PYTHON = {  # functions whose numbers something that is not Python code gets first
    "max": lambda x: max(x, key=_total),
    "min": lambda x: min(x, key=lambda row: row.sum().item()),
    "sum": lambda x: sum(map(_total, x)),
    "sum of floats": lambda x: sum(map(float, x[0])),
    "sum of items": lambda x: sum(map(jg.Tensor.item, x[:, 0])),
    "lists": lambda x: list(itertools.chain(*map(jg.Tensor.tolist, x))),
    "sorted": lambda x: sorted(x[0].unbind(), key=float),
    "a method": lambda x: sorted(x[0].unbind(), key=Loss().total),
    "an object": lambda x: max(x, key=Loss()),
    "reduce": lambda x: functools.reduce(lambda a, row: a + row.sum().item(), x, 0.0),
    "filter": lambda x: len(list(filter(lambda row: (row > 0).sum().item() > 3, x))),
    "a set": lambda x: len(set(map(_positive, x))),
}


@pytest.mark.parametrize("name", CALLED_BY_PYTHON)
def test_numbers_that_builtin_functions_look_at(name):
    def program(compile):
        f = compile(CALLED_BY_PYTHON[name])
        for k in range(3):
            yield f((X + k).flip(k % 2))

    agree(program)


def test_a_cache_keeps_numbers():
    def program(compile):
        total = functools.lru_cache(_mean)
        f = compile(lambda x: (x + 1, total(x)))
        for _ in range(3):
            yield f(X)

    agree(program)


LOSS, NET, PARTIAL, WRAPPED = Loss(), Net(), functools.partial(_mean), jg.no_grad()(_mean)
FUNCTIONS = {
    "item": lambda x: (x * 2).sum().item(),
    "items": lambda x: (x.sum().item(), (x > 0).any().item(), x.long().sum().item()),
    "float": lambda x: float(x.sum()),
    "twice": lambda x: [x.sum().tolist()] * 1 if x.shape[0] < 0 else [x.max().item(), x.mean().item()],
    "a list": lambda x: (x[0] * 2).tolist(),
    "a helper": _helped,
    "stored": _stored,
    "a partial": lambda x: PARTIAL(x),
    "a module": lambda x: NET(x),
    "methods": lambda x: (Loss.of(x), Loss.first(x), LOSS(x), LOSS.inner.total(x * 2)),
    "wrapped": lambda x: WRAPPED(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_specialisation(name):
    f = FUNCTIONS[name]
    compiled = jg.compile(f)
    for k in range(6):
        want, got = f(X + k), compiled(X + k)
        assert _kinds(want) == _kinds(got)
        np.testing.assert_allclose(_numbers(got), _numbers(want), rtol=1e-5)
    explanation = compiled.explain()
    assert len(explanation.specialisations) == 1 and not explanation.eager
    assert not explanation.specialisations[0].cuts


def test_of_a_module():
    net = jg.compile(Net())
    for k in range(4):
        _, total = net(X + k)
        assert total == pytest.approx(float((X + k).tanh().sum()), rel=1e-5)
    assert len(net.explain().specialisations) == 1


def _kinds(x):
    if isinstance(x, (list, tuple)):
        return type(x), [_kinds(y) for y in x]
    return (type(x), {k: _kinds(v) for k, v in x.items()}) if isinstance(x, dict) else type(x)


def _numbers(x):
    if isinstance(x, (list, tuple)):
        return [z for y in x for z in _numbers(y)]
    if isinstance(x, dict):
        return _numbers(list(x.values()))
    return x.flatten().tolist() if isinstance(x, jg.Tensor) else [float(x)]


@pytest.mark.parametrize(
    "use",
    [
        lambda n: n + 1,
        lambda n: f"{n:.2f}",
        lambda n: n if n > 0 else -n,
        lambda n: {round(n, 1): 1},
        lambda n: (lambda: n)(),
        lambda n: [n][0] * 2,
        lambda n: locals()["n"] + 1,
        lambda n: max(n, 0.0),
        lambda n: (n, *[n + 1]),
    ],
)
def test_what_looks_at_the_number_gets_it(use):
    def program(compile):
        def f(x):
            n = x.sum().item()
            return use(n), x * 2

        def g(x):
            n = round(x.sum().item(), 2)
            return use(n)

        f, g = compile(f), compile(g)
        for k in range(8):
            yield f(X + k % 5)
            yield g(X + k % 5)

    agree(program)


def test_a_step_that_returns_its_loss_as_a_number():
    def program(compile):
        w = jg.tensor(np.linspace(0.5, 1, 6, dtype="f4"), requires_grad=True)
        optimizer = jg.optim.Adam([w], lr=0.05)

        @compile
        def step(x):
            optimizer.zero_grad()
            loss = ((x * w).tanh() ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        for k in range(6):
            yield step(X + 0.1 * k), w
        if hasattr(step, "explain"):
            assert sum(s.runs for s in step.explain().specialisations) == 6

    agree(program)


def test_when_the_call_is_not_kept_after_all():
    def program(compile):
        kept, history = [], []

        @compile
        def f(x):
            kept.append(x * 2)
            return {"n": x.sum().item(), "history": history, "l": [x[0].tolist()]}

        @compile
        def g(x):
            total = x.sum().item()
            return total, x.numpy().sum(), (x * 2).max().item()

        for k in range(6):
            found = f(X + k)
            yield found, found["history"] is history, kept
            yield g(X + k)

    agree(program)


def test_fullgraph_allows_it():
    f = jg.compile(lambda x: (x * 2).sum().item(), fullgraph=True)
    assert f(jg.ones(3)) == 6.0 and f(jg.ones(3) * 2) == 12.0
