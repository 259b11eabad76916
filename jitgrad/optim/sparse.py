"""SparseAdam: for sparse gradients, which there are none of yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ir.errors import OperationError

from ..errors import located
from .by_parameter import check_options, require
from .optimizer import Optimizer, Params
from .update import loss_of, with_gradients


class SparseAdam(Optimizer):
    """Adam that updates only the rows a sparse gradient names; refuses dense gradients, as in PyTorch.

    Gradients are dense in jitgrad, so that `step` raises `RuntimeError` for any: use `Adam`. The class is there so that
    its options, groups and state can be read.
    """

    _numbers = frozenset({"lr", "betas", "eps"})

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        require(lr > 0.0, "learning rate", lr)
        require(eps > 0.0, "epsilon value", eps)
        check_options(lr, betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Raises `RuntimeError` if any parameter has a gradient."""
        loss = loss_of(closure)
        for group in self.param_groups:
            for _ in with_gradients(group):
                raise located(
                    OperationError("SparseAdam does not support dense gradients, please consider Adam instead")
                )
        return loss
