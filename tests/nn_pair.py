"""The same module in jitgrad and in PyTorch, with the same weights, run on the same inputs."""

import numpy as np
import pytest
from nn_layers import array

import jitgrad as jg

torch = pytest.importorskip("torch")
__all__ = ["array", "check", "copy_weights"]


def copy_weights(mine, theirs):
    """Give `mine` (jitgrad) the parameters and buffers of `theirs` (PyTorch)."""
    state = {k: jg.tensor(v.detach().numpy()) for k, v in theirs.state_dict().items()}
    mine.load_state_dict(state)


def run(lib, module, inputs, out_of=lambda x: x):
    """Output, and gradients of inputs and parameters, for a cotangent that is not constant."""
    xs = [lib.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    y = out_of(module(*xs))
    weights = lib.tensor(np.linspace(0.5, 1.5, y.numel()).reshape(tuple(y.shape)), dtype=y.dtype)
    (y * weights).sum().backward()
    grads = [x.grad for x in xs if x.requires_grad] + [p.grad for p in getattr(module, "parameters", tuple)()]
    return [t.detach().numpy() for t in [y, *[g for g in grads if g is not None]]]


def check(mine, theirs, *inputs, rtol=1e-9, atol=1e-9):
    """Both modules give the same outputs, gradients and buffers."""
    got, want = run(jg, mine, inputs), run(torch, theirs, inputs)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)
    if hasattr(theirs, "buffers"):
        for g, w in zip(mine.buffers(), theirs.buffers(), strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=rtol, atol=atol)
