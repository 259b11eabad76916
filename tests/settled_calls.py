"""Compiled functions that have been called so often that their calls take shortcuts."""

import numpy as np

import jitgrad as jg
from jitgrad import nn
from jitgrad.compiler import CompiledFunction

SETTLED = 20  # calls, after which there is a shortcut


def settled(f, *args, **named):
    """`f` compiled, after so many calls with these arguments that there is a shortcut for them."""
    compiled = f if isinstance(f, nn.Module) else jg.compile(f)
    for _ in range(SETTLED):
        compiled(*args, **named)
    assert serves(compiled, *args, **named)
    return compiled


def serves(compiled, *args, **named):
    """Whether a shortcut takes this call."""
    function = compiled if isinstance(compiled, CompiledFunction) else compiled._compiled_call
    return any(check(args, named) is True for check in function._shortcuts.checks())


def same(got, want):
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-6)
    assert (got.requires_grad, got.shape, got.dtype) == (want.requires_grad, want.shape, want.dtype)
