"""Clipping by the joint norm as one native call: the same as op by op."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.nn.utils import clip_grad_norm_, clip_launch


def gradients(shapes, seed, dtype):
    rng = np.random.default_rng(seed)
    params = [jg.zeros(s, dtype=dtype, requires_grad=True) for s in shapes]
    for p in params:
        p.grad = jg.tensor(rng.standard_normal(tuple(p.shape)), dtype=dtype)
    return params


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64])
@pytest.mark.parametrize("most", [0.5, 1e3, float("inf")])
def test_every_call_gives_what_ops_give(dtype, most, monkeypatch):
    shapes = [(5, 7), (3,), (), (0, 2), (4, 1, 3), *[(2, k) for k in range(1, 150)]]
    found = []
    for _ in range(2):
        params = gradients(shapes, 1, dtype)
        for _ in range(3):
            norm = clip_grad_norm_(params, most)
        found.append([norm.item(), *[p.grad.numpy().copy() for p in params]])
        monkeypatch.setattr(clip_launch, "_are_plain", lambda arrays: False)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5 if dtype is jg.float32 else 1e-13)


def test_writes_are_counted_and_norms_are_fresh():
    params = gradients([(3,), (4,)], 2, jg.float32)
    norms = []
    for scale in (1.0, 2.0, 4.0, 8.0):
        for p in params:
            p.grad = jg.full_like(p, scale)
        before = [p.grad._version for p in params]
        norms.append(clip_grad_norm_(params, 1.0))
        assert all(p.grad._version > v for p, v in zip(params, before, strict=True))
    np.testing.assert_allclose([n.item() for n in norms], [7**0.5 * s for s in (1, 2, 4, 8)], rtol=1e-6)


def test_what_is_not_plain_goes_op_by_op():
    shared = jg.ones(4)
    for _ in range(3):
        params = gradients([(2, 3), (2, 3)], 3, jg.float32)
        params[0].grad = jg.tensor(np.ones((3, 2), "f4")).t()
        params[1].grad = shared[:0].new_ones(2, 3)
        assert clip_grad_norm_(params, 1.0).item() == pytest.approx(12**0.5)
        assert params[0].grad.sum().item() == pytest.approx(6 / 12**0.5, rel=1e-5)
        params[0].grad = params[1].grad  # one gradient twice is scaled twice, as by ops
        clip_grad_norm_(params, 1.0)
    params[0].grad = jg.full((2, 3), float("nan"))
    for _ in range(3):
        assert clip_grad_norm_(params, 1.0).isnan().item()
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
