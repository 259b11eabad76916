"""Python state that a compiled function reads or changes: as in eager code, at each call."""

import collections
import functools
import itertools
import os
import random
import types

import numpy as np
import pytest
from programs_compared import agree

import jitgrad as jg


def ramp():
    return jg.tensor([-2.0, -0.5, 1.0, 3.0])


class Slotted:
    __slots__ = ("v",)


class Plain:
    shared = 1.0

    def __init__(self):
        self.v = {"k": [1.0]}

    def get(self):
        return self.v["k"][0]

    @property
    def doubled(self):
        return self.get() * 2


def module(text):
    made = types.ModuleType("users_module")
    exec(text, made.__dict__)
    return made


def _class_attribute():
    class C:
        v = 1.0

    c = C()

    def change():
        C.v += 1

    return lambda x: x * C.v + c.v, change


def _method_and_property():
    p = Plain()

    def change():
        p.v["k"][0] += 1
        Plain.shared += 1

    return lambda x: x * p.get() + p.doubled + p.shared, change


def _replaced_method():
    class C:
        def f(self, x):
            return x * 2

    c, factor = C(), itertools.count(3)

    def change():
        k = next(factor)
        C.f = lambda self, x: x * k

    return lambda x: c.f(x), change


def _python_module():
    m = module("v = 1.0\ndef g(x): return x * v")

    def change():
        m.v += 1

    return lambda x: m.g(x) + m.v, change


def _code_of_a_function():
    m = module("def f(x): return g(x)\ndef g(x): return x * 2\ndef h(x): return x * 3")

    def change():
        m.g.__code__ = m.h.__code__

    return m.f, change


def _attributes_and_defaults_of_a_function():
    def f(x, *, k=1.0):
        return x * k + f.bias

    f.bias = 1.0

    def change():
        f.bias += 1
        f.__kwdefaults__ = {"k": f.bias * 2}

    return f, change


def _many_functions_deep():
    m = module(
        "v = 1.0\ndef f0(x): return x * v\n" + "\n".join(f"def f{i}(x): return f{i - 1}(x)" for i in range(1, 9))
    )

    def change():
        m.v += 1

    return m.f8, change


def _partial():
    scale = {"v": 1.0}

    def g(x, k):
        return x * k * scale["v"]

    def change():
        scale["v"] += 1

    return functools.partial(g, k=2), change


def _containers():
    counter, default = collections.Counter(n=1), collections.defaultdict(float, a=1.0)
    ordered, queue = collections.OrderedDict(a=1.0), collections.deque([1.0])
    slotted, deep, long = Slotted(), {"a": {"b": {"c": {"d": {"e": 1.0}}}}}, [1.0] * 100
    slotted.v = 1.0

    def change():
        change.which = (getattr(change, "which", -1) + 1) % 7
        if change.which == 0:
            counter["n"] += 1
        elif change.which == 1:
            default["a"] += 1
        elif change.which == 2:
            ordered["a"] += 1
        elif change.which == 3:
            queue.append(queue.pop() + 1)
        elif change.which == 4:
            slotted.v += 1
        elif change.which == 5:
            deep["a"]["b"]["c"]["d"]["e"] += 1
        else:
            long[80] += 1

    def f(x):
        numbers = counter["n"] + default["a"] * 3 + ordered["a"] * 5 + queue[0] * 7
        return x * numbers + slotted.v * 11 + deep["a"]["b"]["c"]["d"]["e"] * 13 + long[80] * 17

    return f, change


def _environment():
    os.environ["JITGRAD_TEST"] = "1"

    def change():
        os.environ["JITGRAD_TEST"] += "1"

    return lambda x: x * float(os.environ["JITGRAD_TEST"]), change


def _inside_a_modules_attribute():
    net = jg.nn.Linear(2, 2)
    net.settings = {"scale": [1.0]}

    def change():
        net.settings["scale"][0] += 1

    return lambda x: x * net.settings["scale"][0], change


def _of_tensors():
    t = ramp()
    t.scale = 1.0

    def change():
        t.scale += 1

    return lambda x: x * t.scale, change


@pytest.mark.parametrize(
    "make",
    [
        _class_attribute, _method_and_property, _replaced_method, _python_module, _code_of_a_function,
        _attributes_and_defaults_of_a_function, _many_functions_deep, _partial, _containers, _environment,
        _inside_a_modules_attribute, _of_tensors,
    ],
)  # fmt: skip
def test_changes_between_calls_are_seen(make):
    def program(compile):
        f, change = make()
        Plain.shared = 1.0
        f = compile(f)
        for _ in range(8):
            yield f(ramp())
            yield f(ramp())
            change()

    agree(program)


def test_attributes_of_arguments():
    def program(compile):
        f = compile(lambda x, p: x * x.scale + p.get())
        p = Plain()
        for k in range(4):
            x = ramp()
            x.scale = k + 1.0
            yield f(x, p)
            p.v["k"][0] += k

    agree(program)


def _iterator():
    numbers = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    return lambda x: x * next(numbers)


def _counter():
    numbers = itertools.count(1)
    return lambda x: x * next(numbers)


def _generator():
    def count():
        k = 0.0
        while True:
            k += 1
            yield k

    numbers = count()
    return lambda x: x * next(numbers)


def _random():
    random.seed(0)
    return lambda x: x * random.random()


def _random_object():
    source = random.Random(0)
    return lambda x: x * source.random()


def _numpy_random():
    np.random.seed(0)
    return lambda x: x * float(np.random.rand())


def _numpy_generator():
    source = np.random.default_rng(0)
    return lambda x: x * float(source.random())


def _queue():
    queue = collections.deque(maxlen=3)

    def f(x):
        queue.append(len(queue))
        return x * sum(queue)

    return f


def _tally():
    tally = collections.Counter()

    def f(x):
        tally["n"] += 1
        return x * tally["n"]

    return f


@pytest.mark.parametrize(
    "make",
    [
        _iterator, _counter, _generator, _random, _random_object, _numpy_random, _numpy_generator, _queue, _tally,
    ],
)  # fmt: skip
def test_state_that_the_call_changes(make):
    def program(compile):
        f = compile(make())
        for _ in range(5):
            yield f(ramp())

    agree(program)


def test_attributes_that_a_base_class_reads():
    def program(compile):
        class Base(jg.nn.Module):
            k = 1.0

            def forward(self, x):
                return x * self.k

        class Net(Base):
            def forward(self, x):
                return super().forward(x) + 1

        net = compile(Net())
        for _ in range(4):
            yield net(ramp())
            Base.k += 1

    agree(program)
