"""A call that finds everything as the last one did looks at little; whatever has changed is seen all the same."""

import jitgrad as jg
from jitgrad import nn
from jitgrad.compiler.code import reads_of
from jitgrad.compiler.fingerprint import fingerprint
from jitgrad.compiler.recollection import Recollections

SCALE = 2.0


def scaled(x):
    return x * SCALE


def recalls(f):
    """Whether a fingerprint of `f` is known again."""
    found = Recollections(lambda: reads_of(f))
    found.remember(f, fingerprint(f, reads_of(f)))
    return found.recall() is not None


def test_what_can_be_told_by_identity():
    model, cell, tensor = nn.Linear(2, 2), 3, jg.ones(2)
    optimizer = jg.optim.SGD(model.parameters(), lr=0.1)
    assert recalls(scaled)
    assert recalls(lambda x: scaled(model(x)) + cell + tensor * optimizer.defaults["lr"])
    items, state = [1], {"a": 1}
    assert recalls(lambda x: x + items[0])
    assert recalls(lambda x: x + state["a"])
    many = list(range(100))
    assert not recalls(lambda x: x + many[0])


def test_items_that_change_are_not_recalled():
    items, state = [1], {"a": 1}
    for f, change in (
        (lambda x: x + items[0], lambda: items.append(2)),
        (lambda x: x + items[0], lambda: items.__setitem__(0, 5)),
        (lambda x: x + state["a"], lambda: state.update(a=7)),
        (lambda x: x + state["a"], lambda: state.update(b=1)),
    ):
        found = Recollections(lambda f=f: reads_of(f))
        found.remember(f, fingerprint(f, reads_of(f)))
        assert found.recall() is not None
        change()
        assert found.recall() is None


def test_cells_globals_and_code_are_compared(monkeypatch):
    cell = 1.0

    def inner(x):
        return x + cell

    f = jg.compile(lambda x: scaled(inner(x)))
    x = jg.zeros(1)
    for _ in range(3):
        assert f(x).item() == 2.0
    cell = 2.0
    assert f(x).item() == 4.0 and f(x).item() == 4.0
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert f(x).item() == 20.0 and f(x).item() == 20.0
    inner.__code__ = (lambda x: x - cell).__code__
    assert f(x).item() == -20.0
    monkeypatch.setitem(globals(), "scaled", lambda x: x)
    assert f(x).item() == -2.0


def test_defaults_and_attributes_of_functions_are_compared():
    def inner(x, by=1.0):
        return x + by

    f = jg.compile(lambda x: inner(x))
    x = jg.zeros(1)
    for _ in range(3):
        assert f(x).item() == 1.0
    inner.__defaults__ = (5.0,)
    assert f(x).item() == 5.0

    def switched(x):
        return x + (1 if getattr(switched, "on", False) else 0)

    g = jg.compile(lambda x: switched(x))
    for _ in range(3):
        assert g(x).item() == 0.0
    switched.on = True
    assert g(x).item() == 1.0


def test_modules_are_compared_by_their_counters():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))
    f = jg.compile(lambda x: model(x))
    x = jg.ones(1, 2)
    for _ in range(3):
        before = f(x)
    model[0] = nn.Linear(2, 3)
    assert f(x).shape == (1, 3) != before.shape
    with jg.no_grad():
        model[0].weight.fill_(0.0)
        model[0].bias.fill_(7.0)
    assert f(x).tolist() == [[7.0] * 3]


def test_a_cell_that_becomes_empty():
    cell = 1.0

    def inner(x):
        return x + cell  # noqa: F821

    f = jg.compile(lambda x: inner(x))
    x = jg.zeros(1)
    for _ in range(3):
        assert f(x).item() == 1.0
    del cell
    try:
        f(x)
    except NameError:
        return
    raise AssertionError("the variable is gone")


def test_what_changes_at_each_call_is_given_up():
    cell = 0

    def f(x):
        return x + cell

    found = Recollections(lambda: reads_of(f))
    for cell in range(40):
        found.remember(f, fingerprint(f, reads_of(f)))
        cell = -cell - 1
        assert found.recall() is None
    found.remember(f, fingerprint(f, reads_of(f)))
    assert found.recall() is None
