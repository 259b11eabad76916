"""`backward` and `grad`: accumulation, graphs kept and freed, higher orders, hooks, and the errors."""

import gc
import weakref

import numpy as np
import pytest

import jitgrad as jg


def leaf(*values):
    return jg.tensor(list(values), requires_grad=True)


def test_the_introduction():
    x = jg.tensor(2.0, requires_grad=True)
    y = x**3 + 2 * x
    y.backward()
    assert repr(x.grad) == "tensor(14.)"


def test_second_derivative():
    x = jg.tensor(2.0, requires_grad=True)
    (g,) = jg.autograd.grad(x**3, x, create_graph=True)
    g.backward()
    assert x.grad.item() == 12.0


def test_third_derivative():
    x = jg.tensor(3.0, requires_grad=True)
    y = x**4
    for expected in (108.0, 108.0, 72.0):
        (y,) = jg.autograd.grad(y, x, create_graph=True)
        assert y.item() == expected


@pytest.mark.parametrize("rounds", [1, 4])
def test_accumulates(rounds):
    x = leaf(1.0, 2.0)
    for _ in range(rounds):
        (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.array([2.0, 4.0], "f4") * rounds)


def test_a_structure_seen_again_runs_compiled_with_equal_results():
    stats = jg.autograd.backward_stats
    before = (stats.interpreted, stats.compiled, stats.replayed)
    grads = []
    for _ in range(4):
        x = jg.tensor(np.linspace(-2, 2, 64, dtype="f4"), requires_grad=True)
        ((x * 3 + 1).tanh() * x).sum().backward()
        grads.append(x.grad.numpy())
    assert (stats.interpreted, stats.compiled, stats.replayed) == (
        before[0] + 1,
        before[1] + 1,
        before[2] + 3,
    )
    for g in grads[1:]:
        np.testing.assert_allclose(g, grads[0], rtol=2e-6, atol=1e-6)  # a few roundings of float32


def test_compiled_backward_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(jg.config, "compile_backward", False)
    compiled = jg.autograd.backward_stats.compiled
    for _ in range(3):
        x = leaf(1.0, 2.0, 3.0)
        (x.exp() * x * 5).sum().backward()
    assert jg.autograd.backward_stats.compiled == compiled


def test_scalars_that_change_do_not_make_new_structures():
    structures = jg.autograd.backward_stats.structures
    for k in range(5):
        x = leaf(1.0, -2.0)
        (x * (k + 0.5)).tanh().sum().backward()
        np.testing.assert_allclose(
            x.grad.numpy(),
            (k + 0.5) * (1 - np.tanh((k + 0.5) * np.array([1.0, -2.0])) ** 2),
            rtol=1e-5,
            atol=1e-6,
        )
    assert jg.autograd.backward_stats.structures <= structures + 1


def test_broadcast_operands_get_gradients_of_their_own_shape():
    a, b = jg.ones(3, 1, requires_grad=True), jg.ones(4, requires_grad=True)
    for _ in range(2):
        a.grad = b.grad = None
        (a * b + b).sum().backward()
        assert a.grad.tolist() == [[4.0]] * 3
        assert b.grad.tolist() == [6.0] * 4


def test_backward_twice_needs_retain_graph():
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_saved_tensor_written_in_place_is_an_error():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_leaf_written_in_place_is_an_error():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)
    with jg.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0]


def test_errors_name_what_is_wrong():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        jg.ones(1).sum().backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(jg.ones(3))
    with pytest.raises(RuntimeError, match="not have been used"):
        jg.autograd.grad(x.sum(), leaf(1.0))
    with pytest.raises(RuntimeError, match="floating point"):
        jg.tensor([1, 2], requires_grad=True)
    assert jg.autograd.grad(x.sum(), leaf(1.0), allow_unused=True) == (None,)


def test_grad_leaves_grad_alone_and_reaches_inner_tensors():
    x = leaf(1.0, 2.0)
    y = x * 3
    gx, gy = jg.autograd.grad((y * y).sum(), (x, y))
    assert (gx.tolist(), gy.tolist(), x.grad) == ([18.0, 36.0], [6.0, 12.0], None)


def test_a_root_that_is_an_input_or_leads_to_none_counts_once():
    x = jg.tensor([1.0, 2.0], requires_grad=True)
    y = jg.tensor(3.0, requires_grad=True)
    one, ten = jg.ones(2), jg.tensor(10.0)
    for _ in range(3):  # interpreted, compiled, replayed
        (g,) = jg.autograd.grad([x, x.sum()], [x], [one, ten])
        assert g.tolist() == [11, 11]
        g, h = jg.autograd.grad([x, y, x.sum()], [x, y], [one, ten, ten])
        assert g.tolist() == [11, 11] and h.item() == 10
        z = x * 2
        g, h = jg.autograd.grad([z, z.sum(), y], [z, y], [one, ten, ten])
        assert g.tolist() == [11, 11] and h.item() == 10
    jg.autograd.backward([y, x.sum()], [ten, ten], inputs=[x])
    assert x.grad.tolist() == [10, 10] and y.grad is None


def test_hooks_see_and_replace_gradients():
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    handle = y.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    x.register_hook(lambda g: g + 1)
    (y * y).sum().backward(retain_graph=True)
    assert (seen, x.grad.tolist()) == ([[4.0, 8.0]], [81.0, 161.0])
    handle.remove()
    x.grad = None
    (y * y).sum().backward()
    assert x.grad.tolist() == [9.0, 17.0]


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert (y.grad.tolist(), y.retains_grad, y.is_leaf) == ([4.0, 8.0], True, False)


def test_grad_modes_nest():
    x = leaf(1.0)
    with jg.no_grad():
        assert not (x * 2).requires_grad
        with jg.enable_grad():
            assert (x * 2).requires_grad
        assert not jg.is_grad_enabled()

    @jg.no_grad()
    def f():
        return x * 2

    assert not f().requires_grad
    jg.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    jg.set_grad_enabled(True)
    with jg.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_a_tape_is_freed_without_the_cycle_collector():
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        y = (x.exp() * x).tanh()
        ref = weakref.ref(y)
        y.sum().backward()
        del y
        assert ref() is None
    finally:
        gc.enable()


def test_detach_shares_memory_and_has_no_history():
    x = leaf(1.0, 2.0)
    d = (x * 2).detach()
    assert not d.requires_grad
    y = x * 1
    y.detach()[0] = 7.0
    assert y.tolist() == [7.0, 2.0]


class Cube(jg.autograd.Function):
    """x**3, with its derivative written out."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def test_custom_function():
    x = leaf(1.0, 2.0)
    Cube.apply(x * 2).sum().backward()
    assert x.grad.tolist() == [24.0, 96.0]
    (g,) = jg.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    assert jg.autograd.grad(g.sum(), x)[0].tolist() == [6.0, 12.0]


def test_deep_graphs_do_not_exhaust_the_stack():
    x = leaf(1.0)
    y = x
    for _ in range(5000):
        y = y + 0.0
    y.backward()
    assert x.grad.tolist() == [1.0]


def test_functional_transforms():
    from jitgrad.autograd import functional as F

    x = jg.tensor([1.0, 2.0])
    value, g = F.value_and_grad(lambda x: (x**3).sum())(x)
    assert (value.item(), g.tolist()) == (9.0, [3.0, 12.0])
    assert F.hessian(lambda x: (x**3).sum(), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    out, tangent = F.jvp(lambda x: x * x, x, jg.tensor([1.0, 1.0]))
    assert (out.tolist(), tangent.tolist()) == ([1.0, 4.0], [2.0, 4.0])
    assert F.grad(F.grad(lambda x: x**4))(jg.tensor(2.0)).item() == 48.0


def test_anomaly_mode_names_the_line_that_made_a_nan():
    x = jg.tensor([-1.0, 4.0], requires_grad=True)
    with jg.autograd.detect_anomaly(), pytest.raises(RuntimeError, match=r"SqrtBackward0.*\n.*test_backward\.py:\d+"):
        (jg.sqrt(x) * 2).sum().backward()
    assert not jg.autograd.is_anomaly_enabled()
    jg.autograd.set_detect_anomaly(True)
    assert jg.autograd.is_anomaly_enabled()
    jg.autograd.set_detect_anomaly(False)
    jg.sqrt(x).sum().backward()


def test_gradients_of_some_of_the_operands():
    for create in (False, True):
        x, w = jg.tensor([1.0, 2.0], requires_grad=True), jg.tensor([3.0, 4.0], requires_grad=True)
        added, product = (x * 2 + w * 3).sum(), ((x * 2) * (w * 3)).sum()
        (g,) = jg.autograd.grad(added, x, retain_graph=True, create_graph=create)
        (h,) = jg.autograd.grad(product, w, create_graph=create)
        assert (g.tolist(), h.tolist()) == ([2.0, 2.0], [6.0, 12.0])


def test_a_grad_fn_says_its_name():
    y = jg.ones(2, requires_grad=True).exp() * 2
    assert y.grad_fn.name() == "MulBackward0" and y.grad_fn.next_functions[0][0].name() == "ExpBackward0"


def test_errors_of_backward_name_the_line():
    for call in (
        lambda: jg.ones(2).sum().backward(),
        lambda: jg.ones(2, requires_grad=True).backward(),
        lambda: jg.ones(2, requires_grad=True).backward(jg.ones(3)),
        lambda: jg.autograd.grad(jg.ones(2).sum(), jg.ones(2)),
    ):
        with pytest.raises(RuntimeError, match=r"at .*test_backward\.py:\d+ in test_errors_of_backward"):
            call()


def test_two_losses_may_share_what_saves_nothing():
    w = jg.arange(4.0).requires_grad_()
    a, b = (w.reshape(2, 2) + 1).unbind(0)
    (a * a).sum().backward()
    (b * b).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 6.0, 8.0]
    y = (w + 2).sum()
    y.backward()
    y.backward()
    assert w.grad.tolist() == [4.0, 6.0, 8.0, 10.0]
    z = jg.exp(w)
    z.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        z.sum().backward()


def test_a_write_through_a_detached_alias_is_not_mixed_with_a_kept_copy():
    x = jg.tensor([-0.9, 0.3], dtype=jg.float64, requires_grad=True)
    for _ in range(2):
        x.grad = None
        y = x * 1
        alias = y.detach()
        y.tanh_()
        alias.add_(0.1)
        y.sin_()
        y.sum().backward()
        t = np.tanh(x.detach().numpy())
        np.testing.assert_allclose(x.grad.numpy(), np.cos(t + 0.1) * (1 - t * t), rtol=1e-12)


def test_activations_in_place_leave_the_backward_pass_compiled():
    """What `relu_` keeps equals what the next op keeps of the memory it was written to, unless that was changed."""

    def gradient(inplace):
        x = jg.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        w = jg.linspace(0, 2, 16).reshape(4, 4)
        y = jg.nn.functional.relu(x @ w, inplace=inplace)
        ((y @ w) * y).sum().backward()
        return x.grad.tolist()

    first = gradient(inplace=True)
    replayed = jg.autograd.backward_stats.replayed
    for _ in range(2):
        np.testing.assert_allclose(gradient(inplace=True), first, rtol=1e-6)
    assert jg.autograd.backward_stats.replayed == replayed + 2
    np.testing.assert_allclose(gradient(inplace=False), first, rtol=1e-6)


def test_the_short_way_backward_is_left_where_something_else_is_meant():
    """A structure that was seen before, with a hook, other memory, a write, a released part, several roots."""

    def step(x, w, hook=None, between=None):
        y = x * w
        z = (y * 2.0).sigmoid()
        if hook is not None:
            y.register_hook(hook)
        if between is not None:
            between(y, z)
        return (z * x).sum()

    x, w = (jg.tensor(v, requires_grad=True) for v in ([0.5, -1.0], [2.0, 3.0]))
    found = []
    for _ in range(4):
        x.grad = w.grad = None
        step(x, w).backward()
        found.append((x.grad.tolist(), w.grad.tolist()))
    np.testing.assert_allclose(found[1:], [found[0]] * 3, rtol=1e-6)
    x.grad = w.grad = None
    step(x, w, hook=lambda g: g * 0).backward()
    assert w.grad.tolist() == [0.0, 0.0]
    kept = w.grad
    step(x, w).backward()
    assert w.grad is kept and kept._version == 1
    np.testing.assert_allclose(kept.tolist(), found[0][1], rtol=1e-6)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        step(x, w, between=lambda y, z: z.detach().add_(1)).backward()
    loss = step(x, w)
    loss.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()
    w.register_post_accumulate_grad_hook(lambda t: found.append(t.grad.tolist()))
    w.grad = None
    step(x, w).backward()
    np.testing.assert_allclose(found[-1], found[0][1], rtol=1e-6)


def test_gradients_of_the_short_way_are_those_of_the_long_way():
    """Several roots, numbers, leaves that come twice and results that are not used, in turn with another order."""

    def roots(a, b, flip):
        parts = [lambda: a * b + 3.0, lambda: (a - b).exp() * 0.5]
        u, v = (parts[1](), parts[0]()) if flip else (parts[0](), parts[1]())
        values, _ = jg.sort(u)
        return [(values * a).sum(), (v / b + u).sum()]

    seen = []
    for turn in range(6):
        a, b = (jg.tensor(v, dtype=jg.float64, requires_grad=True) for v in ([0.5, -1.0, 2.0], [2.0, 3.0, 0.25]))
        if turn % 2:
            jg.autograd.backward(roots(a, b, turn > 2))
            grads = a.grad, b.grad
        else:
            grads = jg.autograd.grad(roots(a, b, turn > 2), (a, b))
        seen.append([g.tolist() for g in grads])
    np.testing.assert_allclose(seen[1], seen[0], rtol=1e-12)
    np.testing.assert_allclose(seen[2], seen[0], rtol=1e-12)
    np.testing.assert_allclose(seen[4:], [seen[3]] * 2, rtol=1e-12)


def test_structures_differ_by_which_operand_is_the_older():
    """Both quotients have the same ops at the same ages, and the edges of a node are numbered as they are met."""

    def slope(upside_down):
        x = jg.tensor([0.5, 1.0], dtype=jg.float64, requires_grad=True)
        a, b = x.exp(), x.sin()
        (b / a if upside_down else a / b).sum().backward()
        return x.grad.numpy()

    x = np.array([0.5, 1.0])
    for _ in range(3):
        np.testing.assert_allclose(slope(False), np.exp(x) * (np.sin(x) - np.cos(x)) / np.sin(x) ** 2)
        np.testing.assert_allclose(slope(True), np.exp(-x) * (np.cos(x) - np.sin(x)))
