"""How programs are called: names, containers, constants, results, and what is refused."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

Pair = namedtuple("Pair", "left right")


@dataclass
class Scores:
    mean: jg.Tensor
    best: jg.Tensor


def reloaded(program, tmp_path):
    program.save(tmp_path / "program.jg")
    return jg.load_program(tmp_path / "program.jg")


def test_names_positions_and_keywords(tmp_path):
    def f(x, y, *, scale):
        return (x - y) * scale

    program = reloaded(jg.export(f, (jg.ones(2), jg.zeros(2)), {"scale": jg.tensor(2.0)}), tmp_path)
    assert str(program.signature) == "f(x: f32[2], y: f32[2], *, scale: f32[]) -> f32[2]"
    x, y, s = jg.tensor([3.0, 4.0]), jg.ones(2), jg.tensor(10.0)
    for result in (program(x, y, scale=s), program(x, y=y, scale=s), program(y=y, x=x, scale=s)):
        assert result.tolist() == [20, 30]
    for args, kwargs, message in [
        ((x,), {"scale": s}, "argument 'y' is missing"),
        ((x, y, s), {}, "takes 2 arguments by position, not 3"),
        ((x, y), {"scale": s, "z": s}, "unexpected argument 'z'"),
        ((x, y), {"scale": s, "x": s}, "unexpected argument 'x'"),
        ((x, 3.0), {"scale": s}, "'y' must be a Tensor, not float"),
    ]:
        with pytest.raises(ArgumentTypeError, match=message):
            program(*args, **kwargs)


def test_types_are_checked():
    program = jg.export(lambda x: x + 1, (jg.ones(2, 3),))
    with pytest.raises(DTypeError, match=r"must be f32\[2,3\], not f64"):
        program(jg.ones(2, 3, dtype=jg.float64))
    with pytest.raises(ShapeError, match="2 axes, not 1"):
        program(jg.ones(2))
    with pytest.raises(ShapeError, match="dim 1 must be 3"):
        program(jg.ones(2, 4))


def test_containers_come_back_without_their_classes(tmp_path):
    def f(inputs, pair):
        both = inputs["a"] + inputs["list"][1] * pair.left
        return OrderedDict(both=both, pair=Pair(pair.right, None)), Scores(both.mean(), both.max()), [both, "text", 1.5]

    one = jg.ones(2)
    args = ({"a": one, "list": [one, one], "none": None}, Pair(one, one))
    program = reloaded(jg.export(f, args), tmp_path)
    ordered, scores, rest = program({"none": None, "list": [one * 5, one * 3], "a": one}, Pair(one * 2, one * 7))
    assert isinstance(ordered, OrderedDict) and ordered["both"].tolist() == [7, 7]
    assert ordered["pair"].left.tolist() == [7, 7] and ordered["pair"].right is None
    assert (scores.mean.item(), scores.best.item()) == (7, 7) and type(scores).__name__ == "Scores"
    assert rest[0].tolist() == [7, 7] and rest[1:] == ["text", 1.5]
    with pytest.raises(ArgumentError, match="must have the items"):
        program({"a": one, "list": [one, one]}, Pair(one, one))
    with pytest.raises(ArgumentTypeError, match="must be a list, not tuple"):
        program({"a": one, "list": (one, one), "none": None}, Pair(one, one))
    plain = program({"a": one, "list": [one, one], "none": None}, (one, one))  # a record is a tuple too
    assert plain[1].mean.item() == 2


def test_constants_are_part_of_the_signature():
    def f(x, power, mode="up", flag=True):
        return x**power if mode == "up" and flag else x

    program = jg.export(f, (jg.full((2,), 3.0), 2), {"mode": "up"})
    assert str(program.signature) == "f(x: f32[2], power=2, *, mode='up') -> f32[2]"
    x = jg.full((2,), 3.0)
    assert program(x).tolist() == program(x, 2, mode="up").tolist() == [9, 9]
    for args, kwargs in [((x, 3), {}), ((x, 2.0), {}), ((x,), {"mode": "down"})]:
        with pytest.raises(ArgumentError, match="when the program was exported"):
            program(*args, **kwargs)


def test_results_that_are_arguments_state_or_nothing(tmp_path):
    layer = nn.Linear(2, 2)
    program = reloaded(jg.export(lambda x: (x, layer.weight, None, x), (jg.ones(2),)), tmp_path)
    a, weight, nothing, b = program(jg.arange(2.0))
    assert a.tolist() == b.tolist() == [0, 1] and nothing is None
    np.testing.assert_array_equal(weight.numpy(), layer.weight.detach().numpy())
    assert jg.export(lambda x: None, (jg.ones(2),))(jg.ones(2)) is None


def test_unused_arguments_stay():
    program = jg.export(lambda x, y: x * 2, (jg.ones(2), jg.ones(3)), dynamic={"y": {0: "n"}})
    assert program(jg.ones(2), jg.ones(7)).tolist() == [2, 2]


def test_gradients_flow_through_programs():
    layer = nn.Linear(3, 2)
    program = jg.export(layer, (jg.ones(4, 3),), dynamic={"input": {0: "n"}})
    x = jg.randn(5, 3).requires_grad_()
    program.state["weight"].requires_grad_()
    program(x).square().sum().backward()
    gx, gw = x.grad, program.state["weight"].grad
    x.grad = None
    layer(x).square().sum().backward()
    np.testing.assert_allclose(gx.numpy(), x.grad.numpy(), 1e-5)
    np.testing.assert_allclose(gw.numpy(), layer.weight.grad.numpy(), 1e-5)


def test_programs_inside_compiled_and_exported_functions():
    program = jg.export(lambda x: x.tanh() * 2, (jg.ones(4),), dynamic={"x": {0: "n"}})
    f = jg.compile(lambda x: program(x + 1).sum(), fullgraph=True)
    want = ((jg.arange(6.0) + 1).tanh() * 2).sum().item()
    for _ in range(3):
        assert f(jg.arange(6.0)).item() == pytest.approx(want, rel=1e-6)
    outer = jg.export(lambda x: program(x) + 1, (jg.ones(4),), dynamic={"x": {0: "m"}})
    assert outer(jg.zeros(9)).tolist() == [1] * 9


def test_methods_objects_and_compiled_functions():
    class Model:
        def __init__(self):
            self.w = jg.full((2,), 3.0)

        def predict(self, x):
            return x * self.w

        def __call__(self, x):
            return self.predict(x) + 1

    model = Model()
    for f, want in [(model.predict, 3), (model, 4), (jg.compile(model.predict), 3)]:
        program = jg.export(f, (jg.ones(2),))
        assert program(jg.ones(2)).tolist() == [want] * 2 and list(program.state) == ["w"]
    layer = jg.compile(nn.Linear(2, 1))
    assert list(jg.export(layer, jg.ones(1, 2)).state) == ["weight", "bias"]


def test_not_exportable():
    with pytest.raises(ArgumentTypeError, match="expected a function or a module, not int"):
        jg.export(3, ())
    with pytest.raises(ArgumentTypeError, match="argument 'x' is a set"):
        jg.export(lambda x: x, ({1},))
    with pytest.raises(ArgumentTypeError, match="the result is a object"):
        jg.export(lambda x: object(), (jg.ones(1),))
    with pytest.raises(ArgumentError, match="metadata"):
        jg.export(lambda x: x, (jg.ones(1),), metadata={"f": object()})
