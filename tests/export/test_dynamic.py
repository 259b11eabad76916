"""Programs with dynamic sizes do what their functions do, at every size; what can't be dynamic is an error."""

import math
import random
import re

import numpy as np
import pytest
from export.dynamic_functions import FUNCTIONS, dynamic_axes, tensors

import jitgrad as jg
from jitgrad import pytree
from jitgrad.ir.errors import ArgumentError, CompileError, JitgradError, ShapeError
from jitgrad.nn import functional as F

TRIALS = [[1, 1, 1], [2, 3, 5], [3, 2, 1], [13, 5, 40], [64, 50, 33], [10, 10, 10]]
X = jg.ones(8, 3)
BATCH = {"x": {0: "batch"}}


def export_function(name):
    f, shapes, sizes = FUNCTIONS[name]
    dynamic = dict(zip(("x", "y") if name != "masked mean" else ("x", "mask"), dynamic_axes(shapes), strict=False))
    return f, shapes, sizes, jg.export(f, tensors(shapes, sizes), dynamic=dynamic)


def outcome(f, args):
    try:
        return f(*args), None
    except (JitgradError, ValueError) as error:
        return None, error


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_the_function_at_other_sizes(name):
    f, shapes, sizes, program = export_function(name)
    for trial in TRIALS:
        at = dict(zip(sizes, (n + 4 * (k in "hw") for k, n in zip(sizes, trial, strict=False)), strict=True))
        args = tensors(shapes, at, seed=1)
        want, refused = outcome(f, args)
        got, error = outcome(program, args)
        if refused is not None:
            continue
        if error is not None:  # a bound that the export found
            assert any(not program.dims[n].allows(k) for n, k in at.items()), (at, error)
            continue
        for a, b in zip(pytree.flatten(want)[0], pytree.flatten(got)[0], strict=True):
            if isinstance(a, jg.Tensor):
                assert a.dtype is b.dtype
                np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-4, 1e-5)  # sums are fused in another order
            else:
                assert type(a) is type(b) and a == b


@pytest.mark.parametrize("name", FUNCTIONS)
def test_text_reads_back(name, tmp_path):
    program = export_function(name)[-1]
    program.save(tmp_path / "p.jg")
    again = jg.load_program(tmp_path / "p.jg")
    assert again.text == program.text and again.check() == []


def test_bounds_are_found_where_the_function_has_them():
    def bounds(f, n=8):
        dim = jg.export(f, (jg.ones(n, 3),), dynamic=BATCH).dims["batch"]
        return dim.min, dim.max, dim.step

    assert bounds(lambda x: x[:5]) == (5, None, 1)
    assert bounds(lambda x: x[:50]) == (1, 50, 1)
    assert bounds(lambda x: jg.linspace(0, 1, x.shape[0])) == (1, None, 1)
    assert bounds(lambda x: x.reshape(-1, 2, 3).sum(1)) == (1, None, 2)
    assert bounds(lambda x: x.reshape(x.shape[0] // 4, 4, 3).sum(1), 12) == (1, None, 4)
    assert bounds(lambda x: x.chunk(2)[1]) == (2, None, 1)
    assert bounds(lambda x: F.max_pool1d(x.T, 3)) == (3, None, 1)  # the function refuses less, too


def test_comparisons_become_constraints():
    def f(x):
        return x * 2 if x.shape[0] > 5 and x.flatten().shape[0] % 3 == 0 else x

    program = jg.export(f, (X,), dynamic=BATCH)
    assert [str(c) for c in program.constraints] == ["batch > 5", "mod(3*batch,3) == 0"]
    assert all("test_dynamic.py" in c.location and c.location.endswith("f") for c in program.constraints)
    np.testing.assert_array_equal(program(jg.ones(6, 3)).numpy(), 2)
    with pytest.raises(ArgumentError, match=r"holds only for batch > 5, and batch = 5, taken for granted at .*f"):
        program(jg.ones(5, 3))


@pytest.mark.parametrize("name", ["n", "m", "n"])  # ops are interned: what one export made, another may find
def test_comparisons_of_sizes_of_tensors_made_inside(name):
    def f(x):
        h = x.reshape(x.shape[0], 3) * 1
        h = jg.cat([h, h]).permute(1, 0)[:, 1:]
        return h * 2 if h.shape[1] > 5 and h.shape[1] != 77 else h

    program = jg.export(f, (X,), dynamic={"x": {0: name}})
    assert [str(c) for c in program.constraints] == [f"2*{name}-1 != 77"]
    assert program.dims[name].min == 4  # where 2 * n - 1 > 5


def test_trivial_comparisons_vanish():
    def f(x):
        if x.shape[0] == 0 or not x.shape[0] or x.shape[0] != x.size(0) or len(x.shape) != 2:
            raise ValueError
        return x + 1

    assert jg.export(f, (X,), dynamic=BATCH).constraints == ()
    zero = {"x": {0: jg.export.Dim("batch", min=0)}}
    assert {str(c) for c in jg.export(f, (X,), dynamic=zero).constraints} == {"batch != 0"}


def loop(x):
    total = 0
    for i in range(x.shape[0]):
        total = total + x[i]
    return total


def drawn(x):
    return x * random.random()


REFUSED = {
    "a loop over the size": (loop, "depends on batch .*can't be dynamic"),
    "an exact size": (lambda x: x if x.shape[0] == 8 else -x, "'batch' can't vary: only 8 fits batch == 8"),
    "a key": (lambda x: x * {8: 1.0}.get(x.shape[0], 2.0), "the size batch is used as a key"),
    "numbers of NumPy": (lambda x: x + jg.from_numpy(np.ones((x.shape[0], 3), np.float32)), "made by NumPy or Python"),
    "numbers of a list": (lambda x: x + jg.tensor([[1.0] * 3] * x.shape[0]), "made by NumPy or Python"),
    "random numbers": (drawn, "depending on what is no argument of it"),
    "a formula out of reach": (lambda x: x * math.gamma(x.shape[0]), "no expression of dimensions was found"),
    "item": (lambda x: x * x.sum().item(), "the value of a tensor was read"),
    "a branch on a tensor": (lambda x: x if x.sum() > 0 else -x, "the value of a tensor was read"),
    "as many results as rows": (lambda x: list(x), "depends on batch"),
    "a write to an argument": (lambda x: x.add_(1), "writes to one of its arguments"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_users_line(name):
    f, message = REFUSED[name]
    with pytest.raises(CompileError, match=re.compile(message, re.DOTALL)) as caught:
        jg.export(f, (X,), dynamic=BATCH)
    assert "test_dynamic.py" in str(caught.value)


def test_dimensions_that_must_be_equal_say_so():
    with pytest.raises(CompileError, match="'a' and 'b' must be equal: give them one name"):
        jg.export(lambda x, y: x + y, (X, X), dynamic={"x": {0: "a"}, "y": {0: "b"}})
    program = jg.export(lambda x, y: x + y, (X, X), dynamic={"x": {0: "a"}, "y": {0: "a"}})
    with pytest.raises(ShapeError, match=r"'a' has one length: 4 in dim 0 of .*'x', 5 in dim 0 of .*'y'"):
        program(jg.ones(4, 3), jg.ones(5, 3))


def test_declared_bounds():
    dim = jg.export.Dim("batch", min=2, max=64, step=2)
    program = jg.export(lambda x: x.reshape(-1, 2, 3), (X,), dynamic={"x": [dim, None]})
    assert str(program.dims["batch"]) == "2 <= batch <= 64, a multiple of 2"
    for n in (1, 3, 66):
        with pytest.raises(ArgumentError, match=f"is {n}: .* needs 2 <= batch <= 64"):
            program(jg.ones(n, 3))
    with pytest.raises(CompileError, match="depends on batch"):  # no silent change of what was declared
        jg.export(lambda x: x[:10], (X,), dynamic={"x": {0: jg.export.Dim("batch", 1, 64)}})
    for bad in (lambda: jg.export.Dim("a b"), lambda: jg.export.Dim("n", 5, 3), lambda: jg.export.Dim("min")):
        with pytest.raises(ArgumentError):
            bad()


@pytest.mark.parametrize("name", ["attention", "masked mean", "batch norm in training", "convolution", "add", "outer"])
def test_an_example_of_length_one(name):
    f, shapes, sizes = FUNCTIONS[name]
    one = {**sizes, "n": 1}
    dynamic = dict(zip(("x", "y") if name != "masked mean" else ("x", "mask"), dynamic_axes(shapes), strict=False))
    program = jg.export(f, tensors(shapes, one), dynamic=dynamic)
    for n in (1, 2, 5):
        args = tensors(shapes, {**sizes, "n": n}, seed=n)
        np.testing.assert_allclose(program(*args).numpy(), f(*args).numpy(), 1e-4, 1e-5)


def test_an_example_that_is_a_case_of_its_own_is_refused():
    def f(x):
        return x.squeeze(0) * 2 if int(x.shape[0]) == 1 else x

    with pytest.raises(CompileError, match="does something else"):
        jg.export(f, (jg.ones(1, 3),), dynamic=BATCH)


def test_mistakes_in_dynamic():
    for dynamic, message in [
        ({"z": {0: "n"}}, "the arguments are"),
        ({"x": {2: "n"}}, "no axis 2"),
        ({"x": {0: 3}}, "a string or a Dim"),
        ({"x": {0: "n", 1: "n"}}, "is 8 elsewhere and 3"),
        ({"x": {0: jg.export.Dim("n", max=4)}}, "is 8, which is not"),
        ({"k": {0: "n"}}, "no tensor"),
        ([{0: "n"}], "a dict by argument name"),
    ]:
        with pytest.raises((ArgumentError, TypeError), match=message):
            jg.export(lambda x, k: x, (X, 3), dynamic=dynamic)


def test_a_bad_dim_is_told_with_the_users_line():
    for arguments in (("batch size",), ("max",), ("n", 5, 2)):
        with pytest.raises(ArgumentError, match=r"(names are letters|no length is from)[^\n]*\n  at .*test_dynamic.py"):
            jg.export.Dim(*arguments)


def test_sizes_are_ordinary_numbers_to_the_function():
    def f(x):
        n = x.shape[0]
        shown = isinstance(n, int), str(n), f"{n:03d}", list(range(n))[-1], int(n), float(n), len([0] * n), -n, abs(n)
        k = int(n)
        assert repr(shown) == repr((True, str(k), f"{k:03d}", k - 1, k, float(k), k, -k, k))
        assert repr(divmod(n + 1, 3)) == repr(divmod(k + 1, 3))
        return x * (n + 1) / math.ceil(n / 2) + (2 * n - 1) ** 2 - n**0.5 + math.floor(n / 3)

    program = jg.export(f, (X,), dynamic=BATCH)
    assert program.constraints == ()
    for n in (1, 5, 12):
        np.testing.assert_allclose(program(jg.ones(n, 3)).numpy(), f(jg.ones(n, 3)).numpy(), 1e-6)
    assert type(jg.ones(2, 3).shape[0]) is int and jg.ones(2).numel() == 2  # tracking is over


def test_tracking_does_not_outlive_an_error():
    shape = vars(jg.Tensor)["shape"]
    with pytest.raises(CompileError):
        jg.export(loop, (X,), dynamic=BATCH)
    assert vars(jg.Tensor)["shape"] is shape and jg.ones(3).add(1).tolist() == [2, 2, 2]
