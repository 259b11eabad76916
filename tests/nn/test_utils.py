"""Clipping of gradients, and parameters as one vector."""

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")
from nn_pair import array  # noqa: E402

pytestmark = pytest.mark.torch


def parameters(lib):
    made = [lib.tensor(array(shape, i), requires_grad=True) for i, shape in enumerate([(3, 4), (5,), ()])]
    (sum((p**3).sum() for p in made)).backward()
    return made


@pytest.mark.parametrize("norm_type", [2.0, 1, 3.0, float("inf"), float("-inf"), 0])
@pytest.mark.parametrize("max_norm", [0.5, 1e4])
def test_clip_grad_norm(norm_type, max_norm):
    mine, theirs = parameters(jg), parameters(torch)
    got = jg.nn.utils.clip_grad_norm_(mine, max_norm, norm_type)
    want = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    np.testing.assert_allclose(got.item(), want.item(), rtol=1e-6)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-6)


def test_clip_grad_value_and_errors():
    mine, theirs = parameters(jg), parameters(torch)
    jg.nn.utils.clip_grad_value_(mine, 0.3)
    torch.nn.utils.clip_grad_value_(theirs, 0.3)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy())
    assert jg.nn.utils.clip_grad_norm_([jg.zeros(2)], 1.0).item() == 0
    mine[0].grad[0] = float("nan")
    with pytest.raises(RuntimeError, match="non-finite"):
        jg.nn.utils.clip_grad_norm_(mine, 1.0, error_if_nonfinite=True)


def test_vectors():
    layer, other = jg.nn.Linear(3, 2), jg.nn.Linear(3, 2)
    v = jg.nn.utils.parameters_to_vector(layer.parameters())
    assert v.shape == (8,)
    jg.nn.utils.vector_to_parameters(v.detach(), other.parameters())
    np.testing.assert_array_equal(layer.weight.detach().numpy(), other.weight.detach().numpy())


@pytest.mark.parametrize("norm_type", [2.0, 1, float("inf"), 0])
def test_complex_gradients_are_clipped_by_size(norm_type):
    clipped = []
    for lib in (jg, torch):
        p = lib.tensor([3 + 4j, 1j], dtype=lib.complex128, requires_grad=True)
        p.grad = lib.tensor([3 + 4j, 1j], dtype=lib.complex128)
        clipped.append([lib.nn.utils.clip_grad_norm_(p, 0.5, norm_type).item(), p.grad.tolist()])
    np.testing.assert_allclose(clipped[0][0], clipped[1][0], rtol=1e-6)
    np.testing.assert_allclose(clipped[0][1], clipped[1][1], rtol=1e-6)
