"""checkpoint: equal values, gradients, masks and errors in both variants, eagerly and compiled, and less memory."""

import functools
import re
import tracemalloc
import warnings

import numpy as np
import pytest

import jitgrad as jg

checkpoint = jg.utils.checkpoint.checkpoint
VARIANTS = pytest.mark.parametrize("reentrant", [False, True], ids=["plain", "reentrant"])


def layers(count=3, width=6, hidden=6, p=0.4):
    jg.manual_seed(0)

    def layer():
        parts = jg.nn.Linear(width, hidden), jg.nn.GELU(), jg.nn.Dropout(p), jg.nn.Linear(hidden, width)
        return jg.nn.Sequential(*parts)

    return jg.nn.ModuleList([layer() for _ in range(count)])


def forward(parts, x, reentrant):
    for part in parts:
        x = part(x) if reentrant is None else checkpoint(part, x, use_reentrant=reentrant)
    return x.square().mean()


def numbers(*shape):
    return jg.tensor(np.random.default_rng(1).standard_normal(shape).astype(np.float32))


def trained(reentrant, is_compiled=False, steps=3):
    """Losses and parameters after some steps, and the gradient of the input."""
    parts = layers()
    optimizer = jg.optim.SGD(parts.parameters(), lr=0.1)
    x = numbers(5, 6).requires_grad_()

    def step(x):
        optimizer.zero_grad()
        loss = forward(parts, x, reentrant)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = jg.compile(step) if is_compiled else step
    jg.manual_seed(7)
    losses = [float(step(x)) for _ in range(steps)]
    return [np.array(losses), x.grad.numpy(), *[p.detach().numpy() for p in parts.parameters()]]


def assert_equal(got, want, atol=1e-6):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=atol)


@VARIANTS
def test_training_is_the_same_with_the_same_masks(reentrant):
    assert_equal(trained(reentrant), trained(None))


@VARIANTS
def test_compiled_training_is_the_same(reentrant):
    assert_equal(trained(reentrant, is_compiled=True), trained(None))


@VARIANTS
def test_backward_after_a_compiled_forward(reentrant):
    parts = layers()
    compiled = jg.compile(lambda x: forward(parts, x, reentrant))
    for seed in range(3):
        found = []
        for f in (lambda x: forward(parts, x, None), compiled):
            jg.manual_seed(seed)
            parts.zero_grad()
            f(numbers(5, 6)).backward()
            found.append([p.grad.numpy().copy() for p in parts.parameters()])
        assert_equal(*found)
    assert "eager" not in str(compiled.explain())


@pytest.mark.parametrize("is_compiled", [False, True])
def test_gradients_of_gradients(is_compiled):
    parts = layers().eval()
    found = []
    for reentrant in (None, False):
        x = numbers(2, 6).requires_grad_()
        f = functools.partial(forward, parts, reentrant=reentrant)
        f = jg.compile(f) if is_compiled else f
        for _ in range(2):
            (g,) = jg.autograd.grad(f(x), x, create_graph=True)
            (h,) = jg.autograd.grad(g.square().sum(), x)
        found.append([g.detach().numpy(), h.numpy()])
    assert_equal(*found)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_nested(is_compiled):
    def inner(x):
        return x.sin().exp() * x

    def outer(x):
        y = checkpoint(inner, x * 2, use_reentrant=False)
        return checkpoint(inner, y, use_reentrant=False).tanh()

    x, y = (numbers(3).requires_grad_() for _ in range(2))

    def f(t):
        return checkpoint(outer, t, use_reentrant=False).sum()

    f = jg.compile(f) if is_compiled else f
    for _ in range(2):
        x.grad = y.grad = None
        f(x).backward()
        inner(inner(y * 2)).tanh().sum().backward()
        assert_equal([x.grad.numpy()], [y.grad.numpy()])


def test_structures_keywords_and_tensors_reached_otherwise():
    w, x = numbers(3).requires_grad_(), numbers(3).requires_grad_()

    def f(pair, *, scale):
        return {"a": (pair["x"] * w).exp() * scale, "n": 3}

    out = checkpoint(f, {"x": x}, use_reentrant=False, scale=2.0)
    assert out["n"] == 3
    grads = jg.autograd.grad(out["a"].sum(), [w, x])
    want = jg.autograd.grad(f({"x": x}, scale=2.0)["a"].sum(), [w, x])
    assert_equal([g.numpy() for g in grads], [g.numpy() for g in want])


def test_backward_again_with_retain_graph():
    x, calls = numbers(3).requires_grad_(), []

    def f(t):
        calls.append(1)
        return t.exp().sin()

    y = checkpoint(f, x, use_reentrant=False).sum()
    (first,) = jg.autograd.grad(y, x, retain_graph=True)
    (second,) = jg.autograd.grad(y, x)
    assert_equal([first.numpy()], [second.numpy()])
    assert len(calls) == 3
    with pytest.raises(RuntimeError, match=r"second time"):
        jg.autograd.grad(y, x)


def test_recomputing_stops_early_unless_told_otherwise():
    seen = []

    def f(t):
        t = t.exp()
        seen.append("after")
        return t + 1

    x = numbers(2).requires_grad_()
    checkpoint(f, x, use_reentrant=False).sum().backward()
    assert seen == ["after"]
    checkpoint(f, x, use_reentrant=False, early_stop=False).sum().backward()
    with jg.utils.checkpoint.set_checkpoint_early_stop(False):
        y = checkpoint(f, x, use_reentrant=False).sum()
    y.backward()
    assert len(seen) == 5


def test_contexts_surround_the_runs():
    log = []

    class Noted:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)

        def __exit__(self, *exc):
            log.append(f"end of {self.name}")

    x = numbers(2).requires_grad_()
    checkpoint(
        lambda t: t.exp().sin(), x, use_reentrant=False, context_fn=lambda: (Noted("forward"), Noted("again"))
    ).sum().backward()
    assert log == ["forward", "end of forward", "again", "end of again"]


def test_autocast_is_the_same_in_both_runs():
    seen, w = [], numbers(3, 3).requires_grad_()

    def f(x):
        y = x @ w
        seen.append(y.dtype)
        return (y @ w).float()

    x = numbers(2, 3).requires_grad_()
    with jg.autocast("cpu"):
        y = checkpoint(f, x, use_reentrant=False)
        z = f(x)
    y.sum().backward()
    assert seen == [jg.bfloat16] * 3
    assert_equal([w.grad.numpy()], [jg.autograd.grad(z.sum(), w)[0].numpy()], atol=1e-2)


def test_what_differs_the_second_time_is_an_error():
    x, count = numbers(4).requires_grad_(), []

    def fewer(t):
        count.append(1)
        return t.exp() if len(count) == 1 else t + 1

    with pytest.raises(jg.utils.checkpoint.CheckpointError, match=r"A different number of tensors was saved"):
        checkpoint(fewer, x, use_reentrant=False).sum().backward()
    count.clear()

    def other(t):
        count.append(1)
        return (t if len(count) == 1 else t[:2]).exp().sum()

    with pytest.raises(RuntimeError, match=r"different metadata[^$]*'shape': \(4,\)[^$]*'shape': \(2,\)"):
        checkpoint(other, x, use_reentrant=False).backward()


def test_arguments_are_checked():
    x = numbers(2).requires_grad_()
    with pytest.raises(ValueError, match=r"Unexpected keyword arguments: scale"):
        checkpoint(lambda t: t, x, use_reentrant=True, scale=1)
    with pytest.raises(ValueError, match=r"only supported when use_reentrant=False"):
        checkpoint(lambda t: t, x, use_reentrant=True, debug=True)
    with pytest.raises(ValueError, match=r"determinism_check should be one of"):
        checkpoint(lambda t: t, x, use_reentrant=False, determinism_check="all")
    with pytest.warns(UserWarning, match=r"use_reentrant parameter should be passed explicitly"):
        checkpoint(lambda t: t.exp(), x)
    with pytest.warns(UserWarning, match=r"None of the inputs have requires_grad=True"):
        assert not checkpoint(lambda t: t.exp(), numbers(2), use_reentrant=True).requires_grad
    y = checkpoint(lambda t: t.exp(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        jg.autograd.grad(y.sum(), x)


def test_without_gradients_it_is_a_plain_call():
    x = numbers(2).requires_grad_()
    with jg.no_grad():
        assert not checkpoint(lambda t: t.exp(), x, use_reentrant=False).requires_grad


@VARIANTS
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(reentrant, segments):
    model = jg.nn.Sequential(*[jg.nn.Linear(3, 3) for _ in range(5)])
    x = numbers(2, 3).requires_grad_()
    found = []
    for f in (model, lambda t: jg.utils.checkpoint.checkpoint_sequential(model, segments, t, use_reentrant=reentrant)):
        model.zero_grad()
        f(x).sum().backward()
        found.append([p.grad.numpy().copy() for p in model.parameters()])
    assert_equal(*found)


def test_hooks_and_writes_inside_a_compiled_part_have_their_effect():
    seen = []

    def f(x):
        y = x.exp()
        y.register_hook(lambda g: g * 2)
        return y.sin()

    x = numbers(3).requires_grad_()
    compiled = jg.compile(lambda t: checkpoint(f, t, use_reentrant=False).sum())
    want = jg.autograd.grad(f(x).sum(), x)[0].numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            seen.append(jg.autograd.grad(compiled(x), x)[0].numpy())
    assert_equal(seen, [want] * 3)

    total = [jg.zeros(()), jg.zeros(())]

    def counts(x, into):
        into.add_(1)
        return x.exp()

    def step(x, into):
        y = checkpoint(counts, x, into, use_reentrant=False).sum()
        return jg.autograd.grad(y, x)[0]

    compiled = jg.compile(step)
    for _ in range(3):
        a, b = step(x, total[0]), compiled(x, total[1])
    assert_equal([a.numpy(), total[0].numpy()], [b.numpy(), total[1].numpy()])


def test_memory():
    """Of eight parts, with checkpoints, the inputs and the values of one remain (eagerly beside copies of NumPy's)."""
    sizes = {}
    for reentrant in (None, False):
        parts = layers(8, 16, 64, 0.1)
        x = numbers(256, 16)

        def step(x, parts=parts, reentrant=reentrant):
            loss = forward(parts, x, reentrant)
            return jg.autograd.grad(loss, parts[0][0].weight)[0]

        step(x)
        tracemalloc.start()
        step(x)
        eager = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        compiled = jg.compile(step)
        compiled(x)
        arena = int(re.search(r"arena (\d+)", str(compiled.explain()))[1])
        loss = jg.compile(lambda x, p=parts, r=reentrant: forward(p, x, r))(x)
        kept = sum(a.nbytes for a in loss.grad_fn.saved if isinstance(a, np.ndarray))
        sizes[reentrant] = np.array([eager, arena, kept])
    assert (sizes[False] < sizes[None] * [0.75, 0.5, 0.5]).all(), sizes


def test_batch_statistics_move_as_eagerly():
    """Twice a step, as in PyTorch: what is computed again writes again."""
    found = []
    for is_compiled in (False, True):
        jg.manual_seed(0)
        part = jg.nn.Sequential(jg.nn.Linear(4, 4), jg.nn.BatchNorm1d(4), jg.nn.Tanh())
        optimizer, x = jg.optim.SGD(part.parameters(), lr=0.1), numbers(6, 4).requires_grad_()

        def step(x, part=part, optimizer=optimizer):
            optimizer.zero_grad()
            loss = checkpoint(part, x, use_reentrant=False).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = jg.compile(step) if is_compiled else step
        losses = [float(step(x)) for _ in range(4)]
        found.append([np.array(losses), part[1].running_mean.numpy(), part[1].num_batches_tracked.numpy()])
    assert_equal(*found)
    assert found[0][2] == 8
    assert "Python runs" not in str(step.explain())


def test_functional_transforms():
    x = numbers(4, 3)

    def plain(x):
        return (x.sin() * x).exp().sum()

    def f(x):
        return checkpoint(lambda t: (t.sin() * t).exp(), x, use_reentrant=False).sum()

    want = jg.func.grad(plain)(x).numpy()
    for g in (jg.func.grad(f), jg.vmap(jg.func.grad(f)), jg.compile(jg.vmap(jg.func.grad(f)))):
        for _ in range(2):
            assert_equal([g(x).numpy()], [want])
    assert_equal([jg.func.hessian(f)(x[0]).numpy()], [jg.func.hessian(plain)(x[0]).numpy()], atol=1e-4)
