"""PyTorch's functions called with jitgrad's tensors, which by PyTorch's protocol are jitgrad's functions."""

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_functions_of_each_namespace():
    x, y = jg.tensor([[3.0, 4.0]], requires_grad=True), jg.zeros(1, 2)
    for result, want in (
        (torch.add(x, 1), x + 1),
        (torch.stack([x, y]), jg.stack([x, y])),
        (torch.linalg.norm(x), jg.linalg.norm(x)),
        (torch.special.i0(x), jg.special.i0(x)),
        (torch.nn.functional.pairwise_distance(x, y), jg.pairwise_distance(x, y)),
        (torch.nn.functional.relu(x), x.relu()),
    ):
        assert isinstance(result, jg.Tensor) and result.requires_grad
        np.testing.assert_array_equal(result.detach().numpy(), want.detach().numpy())


def test_in_a_compiled_function():
    f = jg.compile(lambda x: torch.sin(x) + torch.nn.functional.softmax(x, dim=0))
    x = jg.tensor([1.0, 2.0])
    for _ in range(2):
        np.testing.assert_allclose(f(x).numpy(), (x.sin() + x.softmax(0)).numpy(), rtol=1e-6)


def test_as_an_argument_of_a_loss():
    anchor, positive, negative = (jg.tensor(np.random.default_rng(i).standard_normal((4, 3))) for i in range(3))
    given = jg.nn.functional.triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=torch.nn.functional.pairwise_distance
    )
    assert given.item() == jg.nn.functional.triplet_margin_loss(anchor, positive, negative).item()


def test_tensors_of_both_libraries_do_not_mix():
    for f in (torch.add, torch.equal, torch.Tensor.copy_, lambda x, y: x + y, lambda x, y: y + x):
        with pytest.raises(TypeError):
            f(torch.ones(2), jg.ones(2))


def test_a_function_that_jitgrad_has_not():
    with pytest.raises(TypeError, match="NotImplemented"):
        torch.nested.to_padded_tensor(jg.ones(2), 0.0)
