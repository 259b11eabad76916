"""`numerics="strict"`: each operation rounds by itself, so that arithmetic equals eager code to the bit."""

import pickle
import random
import warnings

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.ir.config import config

SHAPES = ((5,), (3, 7), (300, 500))  # NumPy runs the small ones eagerly, kernels the large


def _expression(rng, depth):
    if not depth:
        return rng.choice(["a", "b", "c", "2.0", "0.3", "-1.7", "7"])
    x, y = _expression(rng, depth - 1), _expression(rng, rng.randrange(depth))
    forms = [
        "({} + {})",
        "({} - {})",
        "({} * {})",
        "({} * {})",
        "({} / (1.5 + {} ** 2))",
        "jg.sqrt(a ** 2 + {0} * {0})",
    ]
    return rng.choice(forms).format(x, y)


def _arrays(shape, dtype):
    rng = np.random.default_rng(3)
    return [rng.uniform(-2, 2, shape).astype(dtype) for _ in range(4)]


def _results(f, a, b, c, seed):
    """The result of a call and all gradients."""
    leaves = [jg.tensor(x, requires_grad=True) for x in (a, b, c)]
    y = f(*leaves)
    y.backward(jg.tensor(seed))
    return [y.detach().numpy(), *[t.grad.numpy() for t in leaves]]


@pytest.fixture
def op_by_op(monkeypatch):
    """Eager gradients are not compiled."""
    monkeypatch.setattr(config, "compile_backward", False)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_arithmetic_and_its_gradients_equal_eager_code_to_the_bit(monkeypatch, shape, dtype):
    rng = random.Random(f"{shape} {dtype}")
    arrays = _arrays(shape, dtype)
    for _ in range(8):
        text = f"{_expression(rng, rng.randint(2, 4))} + a * b + c"
        f = eval(f"lambda a, b, c: {text}", {"jg": jg})
        monkeypatch.setattr(config, "compile_backward", False)
        want = _results(f, *arrays)
        monkeypatch.setattr(config, "compile_backward", True)
        compiled = jg.compile(f, numerics="strict")
        for _ in range(3):
            for x, y in zip(want, _results(compiled, *arrays), strict=True):
                np.testing.assert_array_equal(x, y, err_msg=text)


@pytest.mark.parametrize("dtype", [jg.float16, jg.bfloat16, jg.complex64])
def test_other_types(dtype):
    a, b, c = [jg.tensor(x).to(dtype) for x in _arrays((300, 500), "f4")[:3]]

    def f(a, b, c):
        return (a * b - c) / 3 + a * a * b

    assert bool((jg.compile(f, numerics="strict")(a, b, c) == f(a, b, c)).all())


def test_both_settings_of_one_function():
    """`x * x - y` with `y` the rounded square: 0 strictly, else what the rounding lost where there is an fma."""
    x = jg.linspace(1, 2, 1000, dtype=jg.float64)

    def f(x, y):
        return x * x - y

    for _ in range(2):
        assert not jg.compile(f, numerics="strict")(x, x * x).any()
        np.testing.assert_allclose(jg.compile(f)(x, x * x).numpy(), 0, atol=1e-15)


@pytest.mark.parametrize("ending", ["if float(t[0]) > -9: pass", "kept.append(1)"])
def test_segments_and_functions_that_python_runs(op_by_op, ending):
    arrays = [x[0] for x in _arrays((2, 40), "f4")]
    space = {"kept": []}
    exec(f"def f(a, b, c):\n    t = a * b + c\n    {ending}\n    return t * a - b * c", space)
    want = _results(space["f"], *arrays)
    compiled = jg.compile(space["f"], numerics="strict")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that Python runs
        for _ in range(8):
            for x, y in zip(want, _results(compiled, *arrays), strict=True):
                np.testing.assert_array_equal(x, y)


def test_a_training_step_equals_eager_code_to_the_bit(op_by_op):
    def run(compile):
        w = jg.tensor(np.linspace(0.1, 1, 50), dtype=jg.float32, requires_grad=True)

        def step(x):
            (g,) = jg.autograd.grad(w * w * x - x / w, w, jg.ones(50))
            with jg.no_grad():
                w.sub_(0.1 * g)

        step = compile(step)
        for k in range(10):
            step(jg.linspace(0, k + 1, 50))
        return w.detach().numpy()

    np.testing.assert_array_equal(run(lambda f: f), run(lambda f: jg.compile(f, numerics="strict")))


def test_sums_are_close_and_the_same_each_time():
    x = jg.tensor(_arrays((700, 900), "f4")[0])
    f = jg.compile(lambda x: (x.sum(), x.sum(0), x.sum(1)), numerics="strict")
    for got, again, want in zip(f(x), f(x), (x.double().sum(), x.double().sum(0), x.double().sum(1)), strict=True):
        assert bool((got == again).all())
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=0.05)  # of 630,000 float32 numbers


def test_it_is_told_kept_and_checked():
    f = jg.compile(abs, numerics="strict")
    f(jg.ones(2))
    assert "strict numerics" in str(f.explain()) and f.explain().numerics == "strict"
    assert pickle.loads(pickle.dumps(f)).explain().numerics == "strict"
    assert jg.func.grad(jg.compile(jg.sum, numerics="strict")).explain().numerics == "strict"
    assert jg.compile(numerics="strict")(abs).explain().numerics == "strict"
    assert "numerics" not in str(jg.compile(abs).explain())
    with pytest.raises(ValueError, match="numerics is one of default, strict, not 'fast'"):
        jg.compile(abs, numerics="fast")
