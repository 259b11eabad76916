"""An op refuses a value in a function that changes Python's objects: what comes before has happened, the rest not."""

import warnings

import pytest

import jitgrad as jg

TOTAL = 0


class State:
    def __init__(self):
        self.count, self.items, self.table = 0, [], {}

    def seen(self):
        return self.count, list(self.items), dict(self.table), TOTAL


def attributes(s, x, i):
    s.count += 1
    y = x[i]
    s.count += 10
    return y * 2


def appends(s, x, i):
    s.items.append("before")
    y = x.gather(0, i)
    s.items.append("after")
    return y


def items(s, x, i):
    s.table["before"] = len(s.table)
    y = x.index_select(0, i)
    s.table["after"] = len(s.table)
    return y


def a_global(s, x, i):
    global TOTAL
    TOTAL += 1
    y = x[i].exp()
    TOTAL += 100
    return y


def of_computed_indices(s, x, i):
    s.count += 1
    y = x[(i * 2 + 1) // 2]
    s.count += 10
    return y


def of_a_loss(s, x, i):
    s.count += 1
    loss = jg.nn.functional.cross_entropy(x.reshape(1, 3).expand(len(i), 3), i)
    s.count += 10
    return loss


def with_a_tensor_stored(s, x, i):
    s.table["before"] = (x * 2).tolist()
    y = x[i]
    s.table["after"] = y.tolist()
    return y


def with_a_write(s, x, i):
    x.add_(1)
    s.count += 1
    y = x[i]
    x.mul_(100)
    s.count += 10
    return y


FUNCTIONS = [
    attributes, appends, items, a_global, of_computed_indices, of_a_loss, with_a_tensor_stored, with_a_write
]  # fmt: skip
ORDERS = ["bggbgb", "gbgbgb", "ggbggb", "ggggggb"]  # good and bad indices


def history(f, order):
    """What each call gives, and the state after it."""
    global TOTAL
    TOTAL, s, found = 0, State(), []
    for kind in order:
        x = jg.tensor([1.0, 2.0, 3.0])
        try:
            result = f(s, x, jg.tensor([0, 9] if kind == "b" else [0, 1])).tolist()
        except IndexError as error:
            result = type(error).__name__
        found.append((kind, result, s.seen(), x.tolist()))
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_effects_stop_where_the_refusal_is(f, order):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        have = history(jg.compile(f), order)
    want = history(f, order)
    for w, h in zip(want, have, strict=True):
        if not isinstance(w[1], str):
            assert h[1] == pytest.approx(w[1], rel=1e-5)
            h = (h[0], w[1], *h[2:])
        assert h == w
