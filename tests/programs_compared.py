"""Runs a small program twice, with `compile` doing nothing and doing its work, and compares all it yields."""

from __future__ import annotations

import warnings

import numpy as np

import jitgrad as jg
from jitgrad.backend import counters


def agree(program):
    """`program(compile)` is a generator of what it saw; eager and compiled runs must see the same."""
    want = _seen(program, lambda f: f)
    got = _seen(program, jg.compile)
    assert len(got) == len(want) or not isinstance(got[-1], Exception), got[-1]
    for step, (w, g) in enumerate(zip(want, got, strict=True)):
        _compare(w, g, f"{program.__name__}, step {step}")


def _seen(program, compile):
    jg.manual_seed(7)
    seen = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Python runs at each call")
        for step in program(compile):
            seen.append(_snapshot(step))
    return seen


def _snapshot(x):
    if isinstance(x, jg.Tensor):
        return (np.array(x.detach().numpy()), x.requires_grad, x.is_leaf, str(x.dtype))
    if isinstance(x, (list, tuple)):
        return [_snapshot(y) for y in x]
    if isinstance(x, dict):
        return {k: _snapshot(v) for k, v in x.items()}
    return x


def _compare(want, got, where):
    if isinstance(want, np.ndarray):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=where)
    elif isinstance(want, (list, tuple)):
        assert len(want) == len(got), where
        for w, g in zip(want, got, strict=True):
            _compare(w, g, where)
    elif isinstance(want, dict):
        assert want.keys() == got.keys(), where
        for key in want:
            _compare(want[key], got[key], where)
    elif isinstance(want, float):
        assert type(got) is float, where
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=where)
    else:
        assert want == got, where


def kernels_of_later_sizes(f, first, later, rtol=1e-4):
    """How many kernels `f` compiles at later inputs, where it must agree with eager code; it has met the first ones."""
    for inputs in first:
        f(*inputs)
    compiled = 0
    for inputs in later:
        before = counters.kernels
        found = f(*inputs)
        compiled += counters.kernels - before
        want = f._f(*inputs)  # which may compile kernels of its own
        for got, expected in zip(found, want, strict=True):
            expected = expected.float().numpy()
            np.testing.assert_allclose(got.float().numpy(), expected, rtol, rtol * max(1, np.abs(expected).max()))
    return compiled
