"""`__torch_function__` of subclasses and other classes, and `TorchFunctionMode`: what is asked, and with what."""

import importlib
from typing import ClassVar

import pytest

import jitgrad as jg
from jitgrad.overrides import TorchFunctionMode, ask, handle_torch_function, has_torch_function, resolve_name

PROGRAMS = """
a + b
b + a
a + 1
2 * a
2 - a
-a
a @ b.T
a == b
a > 0
a[0]
a.T
a.sum()
a.max(1)[0]
a.split(1)
a.reshape(-1)
a.requires_grad_()
a.tolist()
a.detach()
L.add(a, 1)
L.cat([b, a])
L.stack((b, a), dim=1)
L.where(a > 0, a, b)
L.einsum("ij->ji", a)
L.zeros_like(a)
L.full((2,), 3)
L.nn.functional.relu(a)
L.nn.functional.linear(b, a)
L.nn.Linear(3, 2)(a)
L.nn.Parameter(b) * 2
a.__iadd__(1)
a.mul_(2)
a.__setitem__(0, 3)
float(a.sum())
a.sum().backward()
a.as_subclass(L.Tensor) * 2
a.data
a.to(L.float64)
""".strip().splitlines()


def logging_class(lib):
    """A subclass that notes what it is asked about."""

    class Log(lib.Tensor):
        seen: ClassVar = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Log.seen.append((func.__name__, [t.__name__ for t in types]))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Log


def run(lib, program):
    """The classes of a program's results, and what was asked."""
    cls = logging_class(lib)
    a = lib.ones(2, 3, requires_grad="backward" in program).as_subclass(cls)
    cls.seen.clear()
    out = eval(program, {"L": lib, "a": a, "b": lib.ones(2, 3)})
    names = [type(x).__name__ for x in (out if isinstance(out, tuple) else (out,))]
    return names, [("__rdiv__" if n == "__rtruediv__" else n, types) for n, types in cls.seen]


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_asked_is_what_pytorch_asks(program):
    assert run(jg, program) == run(importlib.import_module("torch"), program)


def test_results_are_of_the_subclass_and_gradients_reach_the_leaf():
    class Mine(jg.Tensor):
        def twice(self):
            return self * 2

    x = jg.ones(3, requires_grad=True)
    y = x.as_subclass(Mine).twice().sum()
    assert type(y) is Mine and type(Mine([1.0]) + 1) is Mine
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0] and type(x.grad) is jg.Tensor
    assert repr(Mine([1.0])) == "Mine([1.])"


def test_subclasses_are_asked_before_what_they_are_of_and_foreign_ones_refuse():
    first = logging_class(jg)

    class Second(first):
        pass

    a, s = jg.ones(2).as_subclass(first), jg.ones(2).as_subclass(Second)
    assert type(a + s) is type(s + a) is Second
    other = jg.ones(2).as_subclass(logging_class(jg))
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Log' and 'Log'"):
        a + other
    with pytest.raises(TypeError, match=r"no implementation found for 'jitgrad\.add'"):
        jg.add(a, other)


def test_classes_that_are_no_tensors_are_asked():
    ask()

    class Scalar:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, types

    assert jg.mean(Scalar()) == (jg.mean, (Scalar,))
    assert jg.cat([jg.ones(1), Scalar()])[0] is jg.cat
    assert (jg.ones(1) + Scalar())[0] is jg.Tensor.add
    assert resolve_name(jg.linalg.norm) == "jitgrad.linalg.norm"


def test_modes_see_all_functions_from_the_inside_out():
    seen = []

    class Mode(TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    f = jg.compile(lambda x: x.exp())
    f(jg.ones(2))
    with Mode("outer"), Mode("inner"):
        jg.zeros(2).exp()
        assert has_torch_function(())
        f(jg.ones(2))
    assert seen[:4] == [("inner", "zeros"), ("outer", "zeros"), ("inner", "exp"), ("outer", "exp")]
    assert seen[-2:] == [("inner", "exp"), ("outer", "exp")]
    seen.clear()
    assert jg.ones(2).exp().shape == (2,) and not seen


def test_functions_of_ones_own_ask():
    cls = logging_class(jg)

    def half(x):
        if has_torch_function((x,)):
            return handle_torch_function(half, (x,), x)
        return x / 2

    assert half(jg.ones(1)).tolist() == [0.5] and not cls.seen
    assert type(half(jg.ones(1).as_subclass(cls))) is cls and cls.seen == [("half", ["Log"])]


def test_compiled_functions_ask_as_eager_ones_do():
    cls = logging_class(jg)
    f = jg.compile(lambda x: (x * 2).relu())
    for _ in range(3):
        cls.seen.clear()
        assert type(f(jg.ones(3).as_subclass(cls))) is cls
        assert [name for name, _ in cls.seen] == ["mul", "relu"]
        assert type(f(jg.ones(3))) is jg.Tensor
    makes = jg.compile(lambda x: (x * 2).as_subclass(cls))
    with pytest.warns(UserWarning, match="a class that says what functions mean"):
        for _ in range(3):
            assert type(makes(jg.ones(3))) is cls and makes(jg.ones(3)).tolist() == [2.0, 2.0, 2.0]
