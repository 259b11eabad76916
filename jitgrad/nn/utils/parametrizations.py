"""Parametrizations of weights that train better: orthogonal, of given lengths, of largest singular value 1."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentError, DimError

from ...errors import located
from ...linalg.older import norm_except_dim
from ...tensor import Tensor
from ..functional.distance import normalize
from ..module import Module
from .orthogonal import MAPS, Orthogonal
from .parametrize import register_parametrization
from .power_iteration import as_matrix, first_vectors, largest_singular_value, output_dim, towards_left, towards_right
from .weight_norm import normalised

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_STEPS_AT_FIRST = 15


def _weight_of(module: Module, name: str) -> Any:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise located(ArgumentError(f"Module '{module}' has no parameter or buffer with name '{name}'"))
    return weight


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Let `module.name` be an orthogonal matrix (a unitary one if complex), or a batch of them.

    If it is not square, its columns or its rows are orthonormal, whichever are fewer. `orthogonal_map` is
    "matrix_exp", "cayley" or "householder"; by default "matrix_exp" for square and complex matrices, else
    "householder".

    >>> import jitgrad as jg
    >>> layer = jg.nn.utils.parametrizations.orthogonal(jg.nn.Linear(3, 2))
    >>> bool((layer.weight @ layer.weight.mT).allclose(jg.eye(2), atol=1e-5))
    True
    """
    weight = _weight_of(module, name)
    if weight.ndim < 2:
        raise located(
            ArgumentError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
        )
    if orthogonal_map is None:
        is_square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if is_square or weight.dtype.is_complex else "householder"
    if orthogonal_map not in MAPS:
        raise located(
            ArgumentError(
                f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
            )
        )
    return register_parametrization(module, name, Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)


class _WeightNorm(Module):
    """A weight from its lengths and its direction."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Any:
        """The weight."""
        return normalised(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Any, Any]:
        """Its lengths and its direction."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let `module.name` be its direction times its length, which are trained apart: Salimans and Kingma, 2016.

    There is a length for each index of `dim`, or one for all if that is None. State of the older `nn.utils.weight_norm`
    can be loaded.

    >>> import jitgrad as jg
    >>> layer = jg.nn.utils.parametrizations.weight_norm(jg.nn.Linear(3, 2))
    >>> {name: tuple(t.shape) for name, t in layer.named_parameters()}
    {'bias': (2,), 'parametrizations.weight.original0': (2, 1), 'parametrizations.weight.original1': (2, 3)}
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_Renaming(name))
    return module


class _Renaming:
    """A hook that gives entries of the older weight normalisation the names they have here."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for older, newer in (("g", "original0"), ("v", "original1")):
            key = f"{prefix}{self._name}_{older}"
            if key in state_dict:
                state_dict[f"{prefix}parametrizations.{self._name}.{newer}"] = state_dict.pop(key)


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, of which the two singular vectors are kept."""

    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise located(
                DimError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
            )
        if n_power_iterations <= 0:
            raise located(
                ArgumentError(
                    f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
                )
            )
        self.dim = dim % ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            u, v = first_vectors(matrix, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            self._iterate(matrix, _STEPS_AT_FIRST)

    def _iterate(self, matrix: Any, steps: int) -> None:
        for _ in range(steps):
            towards_left(matrix, self._u, self._v, self.eps)
            towards_right(matrix, self._u, self._v, self.eps)

    def forward(self, weight: Any) -> Any:
        """The normalised weight; in training the vectors take a step first."""
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        return weight / largest_singular_value(matrix, self._u, self._v)

    def right_inverse(self, value: Any) -> Any:
        """The value itself."""
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide `module.name` by its largest singular value: Miyato et al., "Spectral normalization for GANs", 2018.

    The weight is a matrix with `dim` as its rows (by default that of the outputs). The value comes from power
    iteration, `n_power_iterations` steps each time the weight is read in training.
    """
    weight = _weight_of(module, name)
    at = output_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, at, eps))
