"""Transforms in each other, in any order, as PyTorch's; eagerly, and with `compile` outside, inside, or both."""

import itertools
import sys
import warnings

import numpy as np
import pytest

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

import jitgrad as jg  # noqa: E402

WEIGHT = np.linspace(-1, 1, 9).reshape(3, 3)
START = np.array([0.3, -0.7, 1.1])


def base(lib, _):
    """A function of a vector whose result is a number; what it closes over is no argument."""
    weight = lib.tensor(WEIGHT)
    return lambda x: ((x @ weight).tanh() * x).sum() + (x[0] * x[1] ** 2)


STEPS = {
    "grad": lambda lib, F, h: lambda x: (F.grad(h)(x) * x).sum(),
    "grad_and_value": lambda lib, F, h: lambda x: (lambda g, v: (g * g).sum() * v)(*F.grad_and_value(h)(x)),
    "vmap": lambda lib, F, h: lambda x: F.vmap(h)(lib.stack([x, 0.5 * x, x * x])).sum(),
    "vmap of two": lambda lib, F, h: lambda x: F.vmap(lambda a, b: h(a) * b, (0, None))(lib.stack([x, x * x]), x).sum(),
    "vjp": lambda lib, F, h: lambda x: F.vjp(h, x)[1](h(x))[0].sum(),
    "jvp": lambda lib, F, h: lambda x: F.jvp(h, (x,), (x.cos(),))[1],
    "jacrev": lambda lib, F, h: lambda x: F.jacrev(lambda y: y * h(y))(x).sin().sum(),
    "jacfwd": lambda lib, F, h: lambda x: F.jacfwd(lambda y: y * h(y))(x).sin().sum(),
    "hessian": lambda lib, F, h: lambda x: F.hessian(h)(x).sin().sum(),
}


def chain(names, lib, functions):
    """The transforms called `names`, the last outermost, and a gradient around all."""
    h = base(lib, functions)
    for name in names:
        h = STEPS[name](lib, functions, h)
    return functions.grad_and_value(h)


def theirs(names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [[t.numpy() for t in chain(names, torch, torch.func)(torch.tensor(START * s))] for s in (1, 0.5)]


def check(f, want):
    for scale, (gradient, value) in zip((1, 0.5), want, strict=True):
        have = f(jg.tensor(START * scale))
        assert not have[0].requires_grad
        np.testing.assert_allclose(have[1].numpy(), value, rtol=1e-9)
        np.testing.assert_allclose(have[0].numpy(), gradient, rtol=1e-8, atol=1e-9)


PAIRS = [*((name,) for name in STEPS), *itertools.product(STEPS, repeat=2)]


SOME = [*PAIRS[: len(STEPS)], *itertools.product(("grad", "vmap", "jvp"), repeat=2)]


@pytest.mark.parametrize("names", SOME, ids=" in ".join)
def test_one_in_the_other(names):
    check(chain(names, jg, jg.func), theirs(names))


@pytest.mark.slow
@pytest.mark.parametrize("names", [p for p in PAIRS if p not in SOME], ids=" in ".join)
def test_every_pair(names):
    test_one_in_the_other(names)


@pytest.mark.slow
@pytest.mark.parametrize("names", list(itertools.product(STEPS, repeat=3)), ids=" in ".join)
def test_three(names):
    check(chain(names, jg, jg.func), theirs(names))


@pytest.mark.slow
@pytest.mark.parametrize("names", PAIRS, ids=" in ".join)
def test_compiled_outside(names):
    compiled = jg.compile(chain(names, jg, jg.func), fullgraph=True)
    want = theirs(names)
    for _ in range(2):
        check(compiled, want)
    assert len(compiled.explain().misses) == 0


QUICK = [("grad",), ("vmap",), ("grad", "vmap"), ("vmap", "grad"), ("jvp", "grad"), ("hessian",), ("jacfwd", "jacrev")]


@pytest.mark.parametrize("names", QUICK, ids=" in ".join)
def test_compiled_outside_some(names):
    test_compiled_outside(names)


def transforms_of(f, lib):
    """Each transform of a function of vectors, and an argument for it."""
    F, x = jg.func, jg.tensor(START)
    batch = jg.stack([x, 2 * x])
    scalar = lambda y: f(y).sum()  # noqa: E731
    return {
        "grad": (F.grad(scalar), x),
        "grad_and_value": (F.grad_and_value(scalar), x),
        "value_and_grad": (F.value_and_grad(scalar), x),
        "vmap": (F.vmap(f), batch),
        "vmap of grad": (F.vmap(F.grad(scalar)), batch),
        "grad of vmap": (F.grad(lambda b: F.vmap(f)(b).sum()), batch),
        "vjp": (lambda y: F.vjp(f, y)[1](y)[0], x),
        "jvp": (lambda y: F.jvp(f, (y,), (y,)), x),
        "jacrev": (F.jacrev(f), x),
        "jacfwd": (F.jacfwd(f), x),
        "hessian": (F.hessian(scalar), x),
        "vmap of hessian": (F.vmap(F.hessian(scalar)), batch),
        "linearize": (lambda y: F.linearize(f, y)[1](y), x),
        "functional hessian": (lambda y: jg.autograd.functional.hessian(scalar, y), x),
    }


def function(x):
    return (x @ jg.tensor(WEIGHT)).tanh() * x


def numbers(tree):
    return [t.numpy() for t in jg.pytree.flatten(tree)[0]]


@pytest.mark.parametrize("name", transforms_of(function, jg))
def test_compiled_inside_and_both(name):
    eager, x = transforms_of(function, jg)[name]
    inside = transforms_of(jg.compile(function), jg)[name][0]
    for f in (inside, jg.compile(inside)):
        for scale in (1, 1.5, 0.5):
            for have, want in zip(numbers(f(x * scale)), numbers(eager(x * scale)), strict=True):
                np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "transform", ["vmap", "grad", "grad_and_value", "value_and_grad", "jacrev", "jacfwd", "hessian"]
)
def test_a_transform_of_a_compiled_function_is_one(transform):
    inner = jg.compile(lambda x: (x * x).sum())
    outer = getattr(jg.func, transform)(inner)
    outer(jg.ones(2, 3))
    if transform != "hessian":
        assert getattr(jg.func, transform)(inner) is outer
    with jg.assert_no_compile():
        outer(jg.ones(2, 3))
    assert outer.explain().misses == []


def test_gradients_of_gradients_know_their_levels():
    # Siskind and Pearlmutter's example: d/dx (x * d/dy (x + y)) is 1, not 2.
    f = jg.func.grad(lambda x: x * jg.func.grad(lambda y: x + y)(jg.tensor(1.0)))
    assert f(jg.tensor(1.0)).item() == 1
    g = lambda x: x * jg.func.jvp(lambda y: x * y, (jg.tensor(1.0),), (jg.tensor(1.0),))[1]  # noqa: E731
    assert jg.func.jvp(g, (jg.tensor(3.0),), (jg.tensor(1.0),))[1].item() == 6
    assert jg.func.grad(g)(jg.tensor(3.0)).item() == 6
    np.testing.assert_allclose(jg.vmap(jg.func.grad(g))(jg.tensor([1.0, 3.0])).numpy(), [2, 6])


def test_what_lies_outside_is_recorded():
    w = jg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = jg.tensor(START)
    g = jg.func.grad(lambda y: (y * w * w).sum())(x)
    assert g.requires_grad
    (g * g).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 4 * np.array([1.0, 2, 3]) ** 3)
    with jg.no_grad():
        assert not jg.func.grad(lambda y: (y * w).sum())(x).requires_grad
        assert not jg.vmap(jg.func.grad(lambda y: (y * w).sum()))(jg.stack([x, x])).requires_grad
    batch = jg.stack([x, 2 * x]).requires_grad_()
    jg.vmap(jg.func.grad(lambda y: (y**3).sum()))(batch).sum().backward()
    np.testing.assert_allclose(batch.grad.numpy(), 6 * batch.detach().numpy())
    assert not jg.func.grad(lambda y: (y * y.detach()).sum())(x).requires_grad


def scalar(x):
    return (x.sin() * x).sum()


def run_by_python(f, x):
    """How often a call runs `scalar` in Python."""
    count = 0

    def see(frame, event, _):
        nonlocal count
        count += event == "call" and frame.f_code is scalar.__code__

    sys.setprofile(see)
    try:
        f(x)
    finally:
        sys.setprofile(None)
    return count


def total(f):
    return lambda x: f(x).sum()


FORMS = {
    "grad": lambda f: jg.func.grad(f),
    "value_and_grad": lambda f: lambda x: jg.func.value_and_grad(f)(x)[1],
    "vjp": lambda f: lambda x: jg.func.vjp(f, x)[1](jg.ones(()))[0],
    "jvp": lambda f: lambda x: jg.func.jvp(f, (x,), (jg.ones(3),))[1],
    "jacrev": lambda f: jg.func.jacrev(f),
    "jacfwd": lambda f: jg.func.jacfwd(f),
    "hessian": lambda f: jg.func.hessian(f),
    "vmap": lambda f: lambda x: jg.vmap(f)(jg.stack([x, x * 2])).sum(0),
    "checkpoint": lambda f: lambda x: jg.utils.checkpoint.checkpoint(f, x, use_reentrant=False),
    "compile": lambda f: jg.compile(f),
}
AT_LEVELS = ("jvp", "jacfwd", "hessian", "vmap")  # what they call is Python, unless it is compiled itself
SAMPLED = [("grad", "vmap"), ("jvp", "grad"), ("checkpoint", "vmap"), ("vmap", "compile"), ("hessian", "checkpoint")]


def check_pair(outer, inner):
    want = FORMS[outer](total(FORMS[inner](scalar)))
    compiled = {
        "inside": FORMS[outer](total(FORMS[inner](jg.compile(scalar)))),
        "between": FORMS[outer](jg.compile(total(FORMS[inner](scalar)))),
        "outside": jg.compile(FORMS[outer](total(FORMS[inner](scalar)))),
    }
    x = jg.tensor([0.5, 1.5, 2.5])
    for where, f in compiled.items():
        for k in range(3):
            np.testing.assert_allclose(f(x + k).numpy(), want(x + k).numpy(), rtol=1e-4, atol=1e-5)
        if where != "inside" or not {outer, inner} & {*AT_LEVELS, "checkpoint"}:
            assert run_by_python(f, x) == 0, where


@pytest.mark.parametrize(("outer", "inner"), SAMPLED)
def test_where_compile_stands_in_a_pair(outer, inner):
    check_pair(outer, inner)


@pytest.mark.slow
@pytest.mark.parametrize(("outer", "inner"), [p for p in itertools.product(FORMS, repeat=2) if p not in SAMPLED])
def test_where_compile_stands_in_every_pair(outer, inner):
    if (outer, inner) == ("checkpoint", "jacrev"):
        pytest.skip("a checkpoint of jacrev saves other tensors when it is computed again, eagerly as well")
    check_pair(outer, inner)


CHAINS = [*itertools.product(("jacrev", "jacfwd", "vmap"), ("grad", "jacrev", "jacfwd", "hessian")), ("vmap", "vmap")]


@pytest.mark.parametrize(("outer", "inner"), CHAINS)
def test_transforms_of_transforms_of_compiled_functions_run_without_python(outer, inner):
    x = jg.tensor([[[0.5, 1.5, 2.5]]])[0] if outer == "vmap" else jg.tensor([0.5, 1.5, 2.5])
    x = x[None] if inner == "vmap" else x
    made = [getattr(jg.func, outer)(getattr(jg.func, inner)(f)) for f in (scalar, jg.compile(scalar))]
    for k in range(3):
        np.testing.assert_allclose(made[1](x + k).numpy(), made[0](x + k).numpy(), rtol=1e-4, atol=1e-5)
    assert run_by_python(made[1], x) == 0


def test_jvp_of_a_compiled_function():
    compiled = jg.compile(lambda x, y: (x * y.sin(), x.sum()))
    x, y = jg.tensor([1.0, 2.0]), jg.tensor([0.5, 0.25])
    for k in range(3):
        value, moved, aux = jg.func.jvp(compiled, (x + k, y), (y, x), has_aux=True)
        assert jg.allclose(value, (x + k) * y.sin()) and aux.item() == x.sum().item() + 2 * k
        assert jg.allclose(moved, y * y.sin() + (x + k) * y.cos() * x)
    with pytest.raises(RuntimeError, match="independent"):
        jg.func.jvp(jg.compile(lambda x: jg.ones(2)), (x,), (y,), strict=True)
