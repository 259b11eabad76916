"""Shortcuts of calls that go by plain objects, containers, keywords and parameters see all that changes there."""

import dataclasses
import types

import numpy as np
import pytest
from settled_calls import same, serves, settled

import jitgrad as jg
from jitgrad import nn


def twice(x):
    return x * 2


@dataclasses.dataclass
class Tools:
    m: object = nn.functional
    by: float = 2.0
    unread: int = 0

    def scale(self, x):
        return x * self.by


class Below(Tools):
    pass


class Slotted:
    __slots__ = ("__hidden", "by", "more")

    def __init__(self, by=2.0, hidden=1.0):
        self.by = by
        self.__hidden = hidden

    def scale(self, x):
        return x * self.by + self.__hidden + (self.more if hasattr(self, "more") else 0.0)


class Holder:
    offset = 1.0

    def __init__(self, inner):
        self.inner = inner

    def scale(self, x):
        return self.inner.scale(x) + self.offset


class Other:
    offset = 3.0

    def __init__(self):
        self.inner = Tools()

    def scale(self, x):
        return x - self.by


def write(name, value):
    return lambda o: o.__dict__.update({name: value})


def switch_classes(o):
    o.__class__ = Other


def replace_dict(o):
    o.__dict__ = {**o.__dict__, "by": 7.0}


def clear_and_fill(o):
    o.__dict__.clear()
    o.__dict__.update(by=9.0, m=nn.functional)


TO_AN_OBJECT = {
    "set": lambda o: setattr(o, "by", 3.0), "equal": lambda o: setattr(o, "by", float("2")),
    "set below": lambda o: object.__setattr__(o, "by", 4.0),
    "dict": write("by", 5.0), "dict replaced": replace_dict, "dict filled anew": clear_and_fill,
    "class": switch_classes, "method": write("scale", twice),
    "to a tensor": lambda o: setattr(o, "by", jg.full((2,), 5.0)),
    "to an integer": lambda o: setattr(o, "by", 3), "unread": lambda o: setattr(o, "unread", 1),
    "new": lambda o: setattr(o, "other", 1), "deleted": lambda o: delattr(o, "by"),
}  # fmt: skip
TO_THE_CLASS = {
    "property": ("by", property(lambda self: 6.0)), "method": ("scale", lambda self, x: x - self.by),
    "getattribute": ("__getattribute__", lambda self, n: 8.0 if n == "by" else object.__getattribute__(self, n)),
    "descriptor": ("by", type("D", (), {"__get__": lambda *_: 3.0, "__set__": lambda *_: None})()),
}  # fmt: skip


def agrees(compiled, f, *args, **named):
    """Whether the compiled call gives what the function gives, two times."""
    want = f(*args, **named)
    for _ in range(2):
        same(compiled(*args, **named), want)


@pytest.mark.parametrize("how", TO_AN_OBJECT)
@pytest.mark.parametrize("where", ["closure", "argument", "inside", "list", "dict"])
def test_an_object_changes(how, where, monkeypatch):
    o, x = Tools(), jg.ones(2)
    held = {"inside": Holder(o), "list": [o], "dict": {"o": o}}.get(where, o)
    if where == "argument":
        plain = Holder(Tools())
        plain.inner, args = o, (plain, x)

        def f(h, x):
            return h.scale(x)
    else:
        args = (x,)

        def f(x):
            o = held[0] if where == "list" else held["o"] if where == "dict" else held
            return o.scale(x)

    compiled = settled(f, *args)
    TO_AN_OBJECT[how](o)
    if how == "new":
        assert serves(compiled, *args)
    elif how in ("class", "deleted"):
        Other.by = 1.0
        Tools.by = 11.0
    try:
        agrees(compiled, f, *args)
    finally:
        Tools.by = 2.0


@pytest.mark.parametrize("cls", [Tools, Below, Slotted])
@pytest.mark.parametrize("how", TO_THE_CLASS)
def test_a_class_changes(how, cls, monkeypatch):
    o, x = cls(), jg.ones(2)
    compiled = settled(lambda x: o.scale(x), x)
    name, value = TO_THE_CLASS[how]
    for base in (cls, *([Tools] if cls is Below else [])):
        monkeypatch.setattr(base, name, value)
        agrees(compiled, lambda x: o.scale(x), x)


def test_an_inherited_attribute_is_shadowed():
    o, x = Holder(Tools()), jg.ones(2)
    compiled = settled(lambda x: o.scale(x), x)
    for change in (
        lambda: setattr(o, "offset", 4.0), lambda: delattr(o, "offset"), lambda: o.__dict__.update(offset=8.0),
        lambda: setattr(o, "inner", Tools(by=3.0)), lambda: setattr(o.inner, "by", 9.0),
    ):  # fmt: skip
        change()
        agrees(compiled, lambda x: o.scale(x), x)
        compiled = settled(lambda x: o.scale(x), x)


def test_slots_change():
    o, x = Slotted(), jg.ones(2)

    def f(x):
        return x * o.by

    compiled = settled(f, x)
    o.by = 5.0
    assert not serves(compiled, x)
    agrees(compiled, f, x)
    compiled = settled(lambda x: o._Slotted__hidden * x, x)
    o._Slotted__hidden = 4.0
    assert compiled(x).tolist() == [4.0, 4.0]
    o.more = 1.0
    compiled = settled(lambda x: o.scale(x), x)
    for change in (lambda: setattr(o, "more", 2.0), lambda: delattr(o, "more"), lambda: o.__init__(1.0, 7.0)):
        change()
        agrees(compiled, lambda x: o.scale(x), x)


def test_namespaces_change():
    o, x = types.SimpleNamespace(by=2.0), jg.ones(2)
    compiled = settled(lambda x: x * o.by, x)
    for change in (lambda: setattr(o, "by", 3.0), lambda: o.__dict__.update(by=4.0), lambda: o.__init__(by=5.0)):
        change()
        agrees(compiled, lambda x: x * o.by, x)


def test_containers_change():
    items, table, x = [2.0, twice], {"by": 2.0, "f": twice}, jg.ones(2)

    def f(x):
        for k, v in table.items():
            x = x * v if k == "by" else v(x) - len(items)
        return items[1](x) * items[0]

    compiled = settled(f, x)
    for change in (
        lambda: items.__setitem__(0, 5.0), lambda: items.append(1), lambda: items.pop(),
        lambda: items.__setitem__(1, lambda x: x - 1), lambda: table.update(by=4.0), items.reverse, items.reverse,
        lambda: table.__setitem__("by", table.pop("by")), lambda: table.__setitem__("f", lambda x: x + 9),
    ):  # fmt: skip
        change()
        if callable(items[1]):
            agrees(compiled, f, x)
            compiled = settled(f, x)


def test_attributes_and_keyword_defaults_of_functions():
    def inner(x, *, by=2.0):
        return x * by * inner.more

    inner.more, x = 1.0, jg.ones(2)
    compiled = settled(lambda x: inner(x), x)
    for change in (
        lambda: setattr(inner, "more", 3.0), lambda: inner.__kwdefaults__.update(by=5.0),
        lambda: setattr(inner, "__kwdefaults__", {"by": 7.0}), lambda: setattr(inner, "__dict__", {"more": 9.0}),
    ):  # fmt: skip
        change()
        agrees(compiled, lambda x: inner(x), x)
        compiled = settled(lambda x: inner(x), x)


def test_python_modules_change():
    module, x = types.ModuleType("made_by_a_test"), jg.ones(2)
    module.by = 2.0

    def f(x):
        return x * module.by + (module.later if hasattr(module, "later") else 0.0)

    compiled = jg.compile(f)
    for change in (lambda: None, lambda: setattr(module, "by", 3.0), lambda: setattr(module, "later", 5.0)):
        change()
        for _ in range(20):
            agrees(compiled, f, x)
    compiled = settled(lambda x: x * module.by, x)
    module.by = 6.0
    agrees(compiled, lambda x: x * module.by, x)


def test_named_arguments():
    def f(x, y=None, *, by=1.0):
        return x * by if y is None else x * by - y

    a, b = jg.ones(2), jg.full((2,), 3.0)
    compiled = settled(f, a, y=b, by=2)
    assert serves(compiled, b, y=a, by=2)
    for args, named in [
        ((b,), {"y": a, "by": 2}), ((), {"x": b, "y": a, "by": 2}), ((), {"y": a, "x": b, "by": 2}),
        ((a,), {"by": 2, "y": b}), ((a,), {"y": b}), ((a, b), {"by": 2}), ((a,), {"y": b, "by": 3}),
        ((a,), {"y": None, "by": 2}), ((a, b), {}), ((a,), {}), ((a,), {"y": a, "by": 2}),
    ]:  # fmt: skip
        agrees(compiled, f, *args, **named)
    with pytest.raises(TypeError):
        compiled(a, y=b, by=2, more=1)
    swapped = settled(lambda x, y: x - 2 * y, x=a, y=b)
    agrees(swapped, lambda x, y: x - 2 * y, y=a, x=b)
    agrees(swapped, lambda x, y: x - 2 * y, x=b, y=a)


def test_containers_as_arguments():
    def f(xs, more):
        out = sum(x * (k + 1) for k, x in enumerate(xs))
        for k, v in more.items():
            out = out + (v[0] if k == "a" else 2 * v[0])
        return out

    a, b, c = jg.ones(2), jg.full((2,), 3.0), jg.full((2,), 5.0)
    xs, more = [a, b], {"a": (c,), "b": (a + 0,)}
    compiled = settled(f, xs, more)
    assert serves(compiled, [c, a], {"a": (b,), "b": (b + 0,)})
    assert not serves(compiled, [a, a], more)
    for change in (
        xs.reverse, lambda: xs.append(c), xs.pop, lambda: xs.__setitem__(0, jg.ones(1)), lambda: xs.__setitem__(0, 2.0),
        lambda: more.__setitem__("a", more.pop("a")), lambda: more.pop("b"), lambda: more.update(b=[a]),
        lambda: more.update(b=(a.double(),)), xs.clear, lambda: xs.extend([a, a]), more.clear,
    ):  # fmt: skip
        change()
        if xs:
            agrees(compiled, f, xs, more)
    agrees(compiled, f, (a, b), {"a": (c,)})
    agrees(compiled, f, [a, b], {"a": [c]})


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
def test_containers_share_memory_and_are_written():
    def f(xs, *, out):
        xs[0].add_(1)
        return xs[1] * out["y"]

    compiled = settled(f, [jg.ones(4), jg.ones(4)], out={"y": jg.ones(4)})
    for make in (
        lambda b: (b[:4], b[4:], b[4:]), lambda b: (b[:4], b[2:6], b[4:]), lambda b: (b[:4], b[4:], b[2:6]),
        lambda b: (b[:4],) * 3,
    ):  # fmt: skip
        a, b = jg.arange(8.0), jg.arange(8.0)
        (x, y, z), (u, v, w) = make(a), make(b)
        same(compiled([x, y], out={"y": z}), f([u, v], out={"y": w}))
        same(a, b)


def test_parameters_as_arguments():
    p, q, x = nn.Parameter(jg.full((2,), 3.0)), nn.Parameter(jg.ones(2)), jg.ones(2)

    def f(x, p):
        return (x * p).exp()

    compiled = settled(f, x, p)
    assert not serves(compiled, x, q)
    for args in ((x, p), (x, q), (x, x + 1), (p, p), (p, q)):
        grads = []
        for g in (compiled, f):
            p.grad = q.grad = None
            out = g(*args)
            if out.requires_grad:
                out.sum().backward()
            grads.append([None if t.grad is None else t.grad.tolist() for t in (p, q)])
            same(out, f(*args))
        np.testing.assert_allclose(*[[g or [0, 0] for g in gs] for gs in grads], rtol=1e-6)
    for change in (
        lambda: p.requires_grad_(False), lambda: p.requires_grad_(True), lambda: setattr(p, "data", jg.ones(1)),
        lambda: p.register_hook(lambda g: g * 2), lambda: setattr(p, "note", 1.0),
    ):  # fmt: skip
        change()
        agrees(compiled, f, x, p)


def grown(rng, depth=0):
    """Objects of several kinds inside one another, with numbers at the ends."""
    if depth == 3 or rng.random() < 0.2:
        return float(rng.integers(1, 5))
    inner = [grown(rng, depth + 1) for _ in range(2)]
    kind = rng.integers(6)
    if kind < 2:
        made = [Holder(inner[0]), types.SimpleNamespace(inner=inner[0])][kind]
        made.by = inner[1]
        return made
    return [Tools(by=inner[0], m=inner[1]), Slotted(*inner), list(inner), {"by": inner[0], "inner": inner[1]}][kind - 2]


def parts(o):
    """What an object holds, with functions that put something else there."""
    if isinstance(o, (list, dict)):
        keys = list(range(len(o))) if isinstance(o, list) else list(o)
        return [(o[k], lambda v, k=k: o.__setitem__(k, v)) for k in keys]
    names = [n for n in ("inner", "by", "m", "_Slotted__hidden", "more") if hasattr(o, n)]
    return [(getattr(o, n), lambda v, n=n: setattr(o, n, v)) for n in names]


def total(o, x):
    if isinstance(o, float):
        return x * o + 1
    for k, (value, _) in enumerate(parts(o)):
        x = total(value, x) + k
    if isinstance(o, dict):
        x = x * (1 if list(o) == sorted(o) else 3)
    return x - (o.offset if isinstance(o, (Holder, Other)) else 0.0)


@pytest.mark.parametrize("seed", range(12))
def test_random_changes(seed, monkeypatch):
    monkeypatch.setattr("jitgrad.compiler.shortcut_code._FIRST", 1)
    rng = np.random.default_rng(seed)
    root, x, served = Holder([grown(rng) for _ in range(3)]), jg.ones(1, dtype=jg.float64), 0
    compiled = jg.compile(lambda x: total(root, x))
    for _ in range(30):
        for _ in range(3):
            same(compiled(x), total(root, x))
        served += serves(compiled, x)
        o, places = root, parts(root)
        while True:
            value, put = places[rng.integers(len(places))]
            if isinstance(value, float) or rng.random() < 0.2:
                break
            o, places = value, parts(value)
        how = rng.integers(4)
        if how == 0 and isinstance(o, dict):
            o["by"] = o.pop("by")
        elif how == 1 and isinstance(o, list):
            o.reverse()
        elif how == 2 and isinstance(o, Holder):
            o.__dict__ = {**o.__dict__, "offset": float(rng.integers(5))}
        else:
            put(grown(rng, 2))
    assert served > 15
