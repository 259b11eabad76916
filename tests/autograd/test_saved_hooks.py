"""Hooks on saved tensors, and the graph as `jitgrad.autograd.graph` shows it."""

import numpy as np
import pytest

import jitgrad as jg

graph = jg.autograd.graph


def leaf(*shape):
    return jg.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).requires_grad_()


def f(x):
    return (x @ x).tanh().exp().sum() + (x * x).sigmoid().prod()


def test_packed_values_give_the_same_gradients_of_both_orders():
    x, packed = leaf(3, 3), []

    def pack(t):
        packed.append(t.dtype)
        return t.detach().numpy().copy()

    with graph.saved_tensors_hooks(pack, jg.from_numpy):
        y = f(x)
    want = f(x)
    g, h = (jg.autograd.grad(t, x, create_graph=True)[0] for t in (y, want))
    np.testing.assert_allclose(g.detach().numpy(), h.detach().numpy(), rtol=1e-6)
    a, b = (jg.autograd.grad(t.sum(), x)[0].numpy() for t in (g, h))
    np.testing.assert_allclose(a, b, rtol=1e-5)
    assert len(packed) >= 6


def test_what_hooks_return_is_used():
    x = leaf(3)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t * 0 + 2):
        y = (x.detach() * x).sum()
    assert jg.autograd.grad(y, x)[0].tolist() == [2.0, 2.0, 2.0]


def test_the_innermost_hooks_count_and_see_parameters_as_they_are():
    seen = []
    layer, x = jg.nn.Linear(2, 2), leaf(1, 2)
    with graph.saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with graph.saved_tensors_hooks(lambda t: seen.append(type(t).__name__) or t, lambda t: t):
            y = layer(x)
        y = y.exp()
    y.sum().backward()
    assert "Parameter" in seen and seen[-1] == "outer"


def test_a_custom_function_saves_through_hooks():
    class Square(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x, log = leaf(2), []
    with graph.saved_tensors_hooks(lambda t: log.append("pack") or t, lambda t: log.append("unpack") or t):
        Square.apply(x).sum().backward()
    assert log == ["pack", "unpack"]
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())


def test_compiled_functions_under_hooks():
    x = leaf(3, 3)
    compiled = jg.compile(f)
    want = jg.autograd.grad(f(x), x)[0].numpy()
    for _ in range(3):
        with graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), jg.from_numpy):
            y = compiled(x)
        np.testing.assert_allclose(jg.autograd.grad(y, x)[0].numpy(), want, rtol=1e-5)


def test_saving_on_the_cpu_and_writes_to_saved_tensors():
    x = leaf(3)
    with graph.save_on_cpu():
        y = x.exp().sum()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.detach().numpy()), rtol=1e-6)
    with graph.allow_mutation_on_saved_tensors():
        z = x.exp()
        w = (z * z).sum()
        z.detach().zero_()
    x.grad = None
    w.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * x.detach().numpy()), rtol=1e-5)


def test_mistakes_in_hooks():
    x = leaf(2)
    hooks = graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t)
    with pytest.raises(RuntimeError, match=r"pack hook is modifying its input in place"), hooks:
        (x * 1.0).exp()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: "no"):
        y = x.exp().sum()
    with pytest.raises(TypeError, match=r"unpack_hook expected to be a Tensor but got result of type str"):
        y.backward()
    refused = graph.disable_saved_tensors_hooks("not here")
    with pytest.raises(RuntimeError, match="not here"), refused, graph.save_on_cpu():
        pass


def test_nodes_and_edges():
    x = leaf(2)
    y = x * 2 + 1
    node = y.grad_fn
    assert isinstance(node, graph.Node)
    (inner, _), (nothing, _) = node.next_functions
    assert (inner.name(), nothing) == ("MulBackward0", None)
    (accumulate, index), _ = inner.next_functions
    assert accumulate.name() == "AccumulateGrad" and accumulate.variable is x and index == 0
    assert accumulate == graph.get_gradient_edge(x).node
    assert graph.get_gradient_edge(y).node is node
    node.metadata["note"] = 3
    assert y.grad_fn.metadata == {"note": 3}
    assert inner._sequence_nr() < node._sequence_nr()
    with pytest.raises(RuntimeError, match=r"does not require gradients"):
        graph.get_gradient_edge(jg.ones(1))


def test_increment_version_is_seen_by_backward():
    x = leaf(2)
    y = x.exp()
    z = y.exp().sum()
    graph.increment_version([y])
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        z.backward()
