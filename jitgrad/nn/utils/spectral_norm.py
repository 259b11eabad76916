"""The older form of spectral normalisation; see `parametrizations.spectral_norm`."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentError, OperationError

from ...autograd.grad_mode import no_grad
from ...errors import located
from ..module import Module
from ..parameter import Parameter
from .computed import set_computed
from .power_iteration import as_matrix, first_vectors, largest_singular_value, output_dim, towards_left, towards_right

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """Spectral normalisation of one tensor; as a forward pre-hook it takes a few steps of power iteration."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise located(
                ArgumentError(
                    f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
                )
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def _parts(self, module: Any) -> tuple[Any, Any, Any]:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        return as_matrix(weight, self.dim), u, v

    def read(self, module: Any) -> Any:
        """The weight, divided by its largest singular value."""
        return getattr(module, f"{self.name}_orig") / largest_singular_value(*self._parts(module))

    def write(self, module: Any, value: Any) -> None:
        """It can't be set; what it is computed from can."""
        raise located(ArgumentError(f"spectral_norm: set {self.name}_orig in place of {self.name}"))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Move the vectors, in training."""
        if not module.training:
            return
        matrix, u, v = self._parts(module)
        for _ in range(self.n_power_iterations):
            towards_right(matrix, u, v, self.eps)
            towards_left(matrix, u, v, self.eps)

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Normalise `module.name`."""
        if _found(module, name):
            raise located(OperationError(f"Cannot register two spectral_norm hooks on the same parameter {name}"))
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise located(ArgumentError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None"))
        u, v = first_vectors(as_matrix(weight.detach(), dim), eps)  # type: ignore[attr-defined]
        del module._parameters[name]
        module.register_parameter(f"{name}_orig", weight)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        set_computed(module, name, made)
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        """Make the weight a parameter with the value it has."""
        with no_grad():
            weight = self.read(module)
        set_computed(module, self.name, None)
        for part in ("u", "v", "orig"):
            delattr(module, f"{self.name}_{part}")
        module.register_parameter(self.name, Parameter(weight.detach()))


def _found(module: Module, name: str) -> dict[Any, Any]:
    hooks = {key: entry.function for key, entry in module._forward_pre_hooks.items()}
    return {key: hook for key, hook in hooks.items() if isinstance(hook, SpectralNorm) and hook.name == name}


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide `module.name` by its largest singular value, as it is found by power iteration during training.

    The weight is a matrix with `dim` as its rows (by default that of the outputs).
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight that `spectral_norm` normalised an ordinary parameter."""
    for key, hook in _found(module, name).items():
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise located(ArgumentError(f"spectral_norm of '{name}' not found in {module}"))
