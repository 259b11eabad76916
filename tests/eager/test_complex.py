"""Views of complex tensors: what is written to a part is seen in the whole, differentiated, and compiled."""

import numpy as np
import pytest

import jitgrad as jg


def test_parts_are_views():
    z = jg.tensor([1 + 2j, 3 - 1j])
    z.real[0] = 7
    z.imag *= 2
    assert z.tolist() == [7 + 4j, 3 - 2j]
    z.real = jg.tensor([0.0, 1.0])
    jg.view_as_real(z)[:, 1] = 5
    assert z.tolist() == [5j, 1 + 5j]
    pairs = jg.zeros(2, 2)
    jg.view_as_complex(pairs)[0] = 3 + 4j
    assert pairs.tolist() == [[3.0, 4.0], [0.0, 0.0]]


def written(z):
    w = z * 1
    w.real.mul_(3)
    jg.view_as_real(w)[0] = 1.0
    return (w.abs() ** 2).sum()


def test_a_write_to_a_part_is_differentiated():
    z = jg.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    for function in (written, jg.compile(written)):
        (g,) = jg.autograd.grad(function(z), z)
        assert g.tolist() == [0, 54 - 2j]


def test_views_of_pairs_need_pairs():
    with pytest.raises(RuntimeError, match="last dimension of size 2"):
        jg.view_as_complex(jg.zeros(3))
    with pytest.raises(RuntimeError, match="stride 1"):
        jg.view_as_complex(jg.zeros(2, 3).t())
    with pytest.raises(RuntimeError, match="divisible by 2"):
        jg.view_as_complex(jg.zeros(2, 3)[:, :2])
    with pytest.raises(RuntimeError, match="complex"):
        jg.view_as_real(jg.zeros(3))
    with pytest.raises(RuntimeError, match="non-complex"):
        jg.imag(jg.zeros(3))


def test_real_tensors_are_their_own_conjugates():
    x = jg.arange(3)
    assert jg.conj(x) is x and x.conj_physical() is x


@pytest.mark.torch
@pytest.mark.parametrize("name", ["logaddexp", "logsumexp", "logcumsumexp"])
def test_sums_of_complex_exponentials(name):
    import torch

    random = np.random.default_rng(0)
    values = random.standard_normal((2, 4)) * 30 + 1j * random.standard_normal((2, 4))
    args = (1,) if name != "logaddexp" else None
    x, t = jg.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    have = getattr(jg, name)(x, *args) if args else jg.logaddexp(x[0], x[1])
    want = getattr(torch, name)(t, *args) if args else torch.logaddexp(t[0], t[1])
    np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=1e-10)
    have.abs().sum().backward()
    want.abs().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.resolve_conj().numpy(), rtol=1e-8, atol=1e-10)
