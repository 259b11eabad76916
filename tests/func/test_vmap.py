"""`vmap`: dims, results, errors, writes, random numbers, and what goes on inside."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.func import one_by_one, vmap

X = np.arange(12.0).reshape(3, 4)


def x():
    return jg.tensor(X)


def close(have, want, **options):
    np.testing.assert_allclose(have.numpy(), want, **options)


def test_dims():
    close(vmap(lambda a: a * 2)(x()), X * 2)
    close(vmap(lambda a: a.sum(), in_dims=1)(x()), X.sum(0))
    close(vmap(lambda a: a.sum(), in_dims=-1)(x()), X.sum(0))
    close(vmap(lambda a: a, in_dims=1, out_dims=1)(x()), X)
    close(vmap(lambda a: a, in_dims=0, out_dims=-1)(x()), X.T)
    close(vmap(lambda a, b: a @ b, in_dims=(0, None))(x(), jg.arange(4.0).double()), X @ np.arange(4.0))
    close(vmap(lambda a, *, b: a * b)(x(), b=x()), X * X)
    out, same = vmap(lambda a: (a, jg.ones(2)), out_dims=(0, None))(x())
    close(out, X)
    close(same, np.ones(2))
    close(vmap(lambda a: jg.ones(2))(x()), np.ones((3, 2)))


def test_containers():
    f = vmap(lambda d, t: {"sum": d["a"] + t[0], "pair": (t[1], d["a"] * 2)}, in_dims=({"a": 0}, (None, 1)))
    out = f({"a": x()}, (jg.ones(4), x().mT))
    assert set(out) == {"sum", "pair"}
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        f({"a": x()}, (jg.ones(4), x().reshape(6, 2)))
    a, (_, c) = vmap(lambda d: (d["a"], (d["b"], 2 * d["b"])), out_dims=(1, 0))({"a": x(), "b": x()})
    close(a, X.T)
    close(c, 2 * X)
    f = vmap(lambda u, v: u + v["w"], in_dims=(0, None))
    close(f(x(), {"w": jg.ones(4)}), X + 1)


def test_nested():
    outer = vmap(vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))
    close(outer(jg.arange(3.0), jg.arange(4.0)), np.outer(np.arange(3), np.arange(4)))
    close(vmap(lambda row: vmap(lambda e: e * row.sum())(row))(x()), X * X.sum(1, keepdims=True))
    close(vmap(vmap(vmap(lambda a: a + 1)))(jg.zeros(2, 3, 4)), np.ones((2, 3, 4)))


def test_chunks():
    calls = []

    def f(a):
        calls.append(1)
        return a.sum(), a

    total, same = vmap(f, chunk_size=2, out_dims=(0, 1))(x())
    close(total, X.sum(1))
    close(same, X.T)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: vmap(lambda a: a, in_dims="a")(x()), ValueError, "expected `in_dims` to be int"),
        (lambda: vmap(lambda a: a, in_dims=(0, 0))(x()), ValueError, "not compatible with the structure"),
        (lambda: vmap(lambda a: a, in_dims=2)(x()), ValueError, "dimensionality 2 so expected in_dim"),
        (lambda: vmap(lambda a: a, in_dims=None)(x()), ValueError, "expected `in_dims`"),
        (lambda: vmap(lambda a, b: a, in_dims=(None, None))(x(), x()), ValueError, "no dim"),
        (lambda: vmap(lambda: 1)(), ValueError, "got no inputs"),
        (lambda: vmap(lambda a: a)(3), ValueError, "We cannot vmap over non-Tensor arguments"),
        (lambda: vmap(lambda a: 3.0)(x()), ValueError, "must only return Tensors"),
        (lambda: vmap(lambda a: a, out_dims=(0, 0))(x()), ValueError, "not compatible with the structure of `outputs`"),
        (lambda: vmap(lambda a: a, out_dims=3)(x()), IndexError, "Dimension out of range"),
        (lambda: vmap(lambda a: a, out_dims=None)(x()), ValueError, "can not return a BatchedTensor"),
        (lambda: vmap(lambda a: a, randomness="foo"), RuntimeError, "Only allowed values for randomness"),
        (lambda: vmap(lambda a: a, chunk_size=0), ValueError, "chunk_size"),
        (lambda: vmap(lambda a: a.sum().item())(x()), RuntimeError, "the value of a Tensor was asked for"),
        (lambda: vmap(lambda a: a if a.sum() > 0 else -a)(x()), RuntimeError, "the value of a Tensor was asked for"),
        (lambda: vmap(lambda a: a.nonzero())(x()), RuntimeError, "shape depends on them"),
        (lambda: vmap(lambda a: a[a > 1])(x()), RuntimeError, "shape depends on them"),
        (lambda: vmap(lambda a: jg.zeros(4).add_(a))(x()), RuntimeError, "add_ is not possible"),
        (lambda: vmap(lambda a: a + jg.rand(4))(x()), RuntimeError, "randomness error mode"),
        (lambda: vmap(lambda a: a.sum().backward())(x()), RuntimeError, "inside a functional transform"),
        (lambda: vmap(lambda a: a.requires_grad_())(x()), RuntimeError, "inside of a function being transformed"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
    close(vmap(lambda a: a + 1)(x()), X + 1)  # nothing is left of the failure


def test_unbatched_values_may_be_read():
    flag = jg.tensor(2.0)
    close(vmap(lambda a: a * 2 if flag > 1 else a)(x()), 2 * X)
    close(vmap(lambda a, b: a * b.item(), in_dims=(0, None))(x(), flag), 2 * X)


def test_writes():
    seen = x()
    close(vmap(lambda a: a.mul_(2))(seen), 2 * X)
    close(seen, 2 * X)

    def through_views(a):
        b = jg.zeros_like(a)
        b[1:3] = a[:2]
        c = b[2:]
        c += 10
        b.view(2, 2)[0].neg_()
        return b, c

    want = np.stack([[-0.0, -r[0], r[1] + 10, 10] for r in X])
    have, tail = vmap(through_views)(x())
    close(have, want)
    close(tail, want[:, 2:])
    close(vmap(lambda a, i: a.clone().index_put_((i,), jg.tensor(5.0).double()))(x(), jg.tensor([0, 1, 3])), put(X))
    close(jg.compile(vmap(lambda a: through_views(a)[0]))(x()), want)


def put(array):
    out = array.copy()
    out[[0, 1, 2], [0, 1, 3]] = 5
    return out


def test_writes_are_differentiated():
    def f(a):
        b = a.clone()
        b[0] = a[1] * a[2]
        b *= 2
        return (b**2).sum()

    want = np.stack([[0, 8 * r[1] * r[2] ** 2 + 8 * r[1], 8 * r[2] * r[1] ** 2 + 8 * r[2], 8 * r[3]] for r in X])
    close(vmap(jg.func.grad(f))(x()), want)
    close(jg.compile(vmap(jg.func.grad(f)))(x()), want)
    leaf = x().requires_grad_()
    vmap(f)(leaf).sum().backward()
    close(leaf.grad, want)


def test_writes_to_one_element_are_differentiated_at_every_level():
    def f(a):
        b = a.clone()
        b[0] = a[1] * a[2]
        b[3] *= a[1]
        return (b**2).sum()

    def forward(a):
        return jg.func.jvp(f, (a,), (jg.ones_like(a),))[1]

    a = jg.stack([x(), x() + 1])
    for derived in (jg.func.grad(f), forward):
        want = np.stack([[derived(row).numpy() for row in rows] for rows in a])
        for whole in (vmap(vmap(derived)), vmap(vmap(derived), 1, 1)):
            close(whole(a), want)
            close(jg.compile(whole)(a), want)
    want = np.stack([[forward(row).numpy() for row in rows] for rows in a])
    outside = jg.compile(lambda a: jg.func.jvp(vmap(vmap(f)), (a,), (jg.ones_like(a),))[1])
    close(outside(a), want)


def test_random_numbers():
    noise = lambda a: a * 0 + jg.rand(4)  # noqa: E731
    same = vmap(noise, randomness="same")(x()).numpy()
    assert (same[0] == same[1]).all()
    different = vmap(noise, randomness="different")(x()).numpy()
    assert (different[0] != different[1]).any()
    jg.manual_seed(3)
    once = vmap(noise, randomness="different")(x()).numpy()
    jg.manual_seed(3)
    assert (once == vmap(noise, randomness="different")(x()).numpy()).all()
    compiled = jg.compile(vmap(noise, randomness="different"))
    assert (compiled(x()).numpy() != compiled(x()).numpy()).any()
    jg.manual_seed(3)
    assert (once == compiled(x()).numpy()).all()
    nested = vmap(vmap(lambda a: a * 0 + jg.rand(()), randomness="same"), randomness="different")(x()).numpy()
    assert (nested[:, :1] == nested).all() and (nested[0] != nested[1]).any()


def test_what_has_no_rule_goes_one_by_one():
    before = one_by_one.counts["histc"]
    close(vmap(lambda a: jg.histc(a, 3, 0, 12))(x()), np.stack([np.histogram(r, 3, (0, 12))[0] for r in X]))
    assert one_by_one.counts["histc"] == before + 1


def test_gradients_of_outer_tensors():
    w = jg.ones(4, requires_grad=True)
    vmap(lambda a: (a * w).sum())(x().float()).sum().backward()
    close(w.grad, X.sum(0))
    with jg.no_grad():
        assert not vmap(lambda a: a * w)(x().float()).requires_grad
    out = vmap(lambda a: (a * w.detach()).sum())(x().float())
    assert not out.requires_grad


def test_gradients_for_many_cotangents():
    v = jg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    unused = jg.ones(1, requires_grad=True)
    g, none = jg.autograd.grad(v**2, (v, unused), jg.eye(3), is_grads_batched=True, allow_unused=True)
    close(g, np.diag([2.0, 4, 6]))
    assert none is None
    close(vmap(lambda c: jg.autograd.grad((v**2), v, c)[0])(jg.eye(3)), np.diag([2.0, 4, 6]))


def test_no_sample_at_all():
    assert vmap(lambda a: a.sum())(jg.zeros(0, 3)).shape == (0,)
    assert vmap(lambda a: a @ jg.ones(3))(jg.zeros(0, 2, 3)).shape == (0, 2)


def test_shows_what_it_is():
    shown = []
    vmap(lambda a: shown.append(repr(a)) or a)(jg.ones(2))
    assert "BatchedTensor(lvl=1, bdim=0" in shown[0]


def test_loops_and_choices():
    v = jg.tensor([1.0, 2.0])
    close(vmap(lambda a: jg.cond(a > 1, lambda b: b * 2, lambda b: b * 3, (a,)))(v), [3, 4])
    steps, value = vmap(
        lambda a: jg.while_loop(lambda i, y: y < 5 + i, lambda i, y: (i + 1, y * 2), (jg.tensor(0), a))
    )(v)
    assert steps.tolist() == [3, 2] and value.tolist() == [8, 8]
    _, rows = vmap(lambda a: jg.scan(lambda c, t: (c * t, c + t), a, jg.arange(3.0)))(v)
    close(rows, [[1, 1, 2], [2, 1, 2]])
