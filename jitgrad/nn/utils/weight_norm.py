"""The older form of weight normalisation; see `parametrizations.weight_norm`."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.ir.errors import ArgumentError, OperationError

from ...errors import located
from ...linalg.older import norm_except_dim
from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter
from ..uninitialized import is_lazy
from .computed import set_computed

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def normalised(v: Tensor, g: Tensor, dim: int) -> Any:
    """`g * v / |v|`, with a length for each index of `dim`, or one for all if that is -1."""
    return v * (g / norm_except_dim(v, 2, dim))  # type: ignore[operator]


class WeightNorm:
    """Weight normalisation of one tensor; it stands among the module's forward pre-hooks."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """The weight, from its direction and its length."""
        return normalised(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    def read(self, module: Any) -> Any:
        """The weight."""
        return self.compute_weight(module)

    def write(self, module: Any, value: Any) -> None:
        """It can't be set; its parts can."""
        raise located(ArgumentError(f"weight_norm: set {self.name}_g and {self.name}_v in place of {self.name}"))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Normalise `module.name`."""
        for hook in _found(module, name).values():
            raise located(OperationError(f"Cannot register two weight_norm hooks on the same parameter {hook.name}"))
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise located(
                ArgumentError(
                    "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the "
                    "dummy forward before applying weight normalization"
                )
            )
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, 2, made.dim).detach()))  # type: ignore[attr-defined]
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
        set_computed(module, name, made)
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        """Make the weight a parameter with the value it has."""
        weight = self.compute_weight(module).detach()
        set_computed(module, self.name, None)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Nothing is left to do before `forward`: the weight is computed where it is read."""


def _found(module: Module, name: str) -> dict[Any, Any]:
    hooks = {key: entry.function for key, entry in module._forward_pre_hooks.items()}
    return {key: hook for key, hook in hooks.items() if isinstance(hook, WeightNorm) and hook.name == name}


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let `module.name` be its direction `name_v` times its length `name_g`, which are trained apart.

    Lengths are one for each index of `dim`, or one for all if that is None. `parametrizations.weight_norm` is the
    newer form, which this one warns of.
    """
    warnings.warn(
        "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight that `weight_norm` normalised an ordinary parameter."""
    for key, hook in _found(module, name).items():
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise located(ArgumentError(f"weight_norm of '{name}' not found in {module}"))
