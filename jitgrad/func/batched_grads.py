"""`autograd.grad(..., is_grads_batched=True)`: the gradients for many cotangents at once."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import AutogradError

from ..autograd.api import GradsOfSamples, grad
from ..errors import located
from ..tensor import Tensor
from .vmap import vmap


def grad_of_samples(
    outputs: Any, inputs: Any, seeds: Any, retain: bool, create: bool, allow_unused: bool | None, materialize: bool
) -> tuple[Tensor | None, ...]:
    """The gradients, the dim of the cotangents in front; None for inputs that have no influence."""
    given = tuple(seeds) if isinstance(seeds, (tuple, list)) else (seeds,)
    if any(not isinstance(g, Tensor) for g in given):
        raise located(AutogradError("grad_outputs must be given for all outputs when is_grads_batched is set"))
    flows: list[bool] = []

    def pull(*cotangents: Tensor) -> tuple[Any, ...]:
        found = grad(
            outputs, inputs, cotangents, retain, create, allow_unused=allow_unused, materialize_grads=materialize
        )
        flows[:] = [g is not None for g in found]
        return tuple([g for g in found if g is not None])

    grads = iter(vmap(pull)(*given))
    return tuple([next(grads) if flows_here else None for flows_here in flows])


GradsOfSamples.run = grad_of_samples
