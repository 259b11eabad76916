"""Initial values of parameters: functions that fill a tensor in place, as in `torch.nn.init`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.ir.errors import ArgumentError, operand_lines
from jitgrad.ir.ops.comparison import Gt, Lt
from jitgrad.ir.ops.logical import LogicalOr
from jitgrad.ir.ops.select import Where

from ..aliasing import copy, write
from ..autograd.grad_mode import no_grad
from ..dispatch import apply
from ..errors import located
from ..functions.pointwise import filled, pointwise
from ..functions.registry import FUNCTIONS
from ..random import Generator
from ..tensor import Tensor, to_array

_LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which to widen weights in front of a nonlinearity.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise located(ArgumentError(f"negative_slope {param} not a valid number"))
        return math.sqrt(2.0 / (1 + slope**2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in gains:
        raise located(ArgumentError(f"Unsupported nonlinearity {nonlinearity}"))
    return gains[nonlinearity]


def _fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input has."""
    if tensor.ndim < 2:
        raise located(
            ArgumentError(
                "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
                f"{operand_lines([tensor.type_])}"
            )
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans  # the name scripts use with PyTorch


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Numbers drawn evenly from [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)  # type: ignore[attr-defined, no-any-return]


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Numbers drawn from the normal distribution."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)  # type: ignore[attr-defined, no-any-return]


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Numbers drawn from the normal distribution, those not between a and b drawn again."""
    low, high = ((bound - mean) / (std * math.sqrt(2.0)) for bound in (a, b))
    if math.erf(high) - math.erf(low) < 1e-3:
        raise located(ArgumentError(f"trunc_normal_: almost nothing of N({mean}, {std}) is between {a} and {b}"))
    with no_grad():
        normal_(tensor, mean, std, generator)
        while True:
            outside = pointwise(LogicalOr(), pointwise(Lt(), tensor, a), pointwise(Gt(), tensor, b))
            if not to_array(outside).any():
                return tensor
            again = normal_(copy(tensor), mean, std, generator)
            write(tensor, apply(Where(), outside, again, tensor), "trunc_normal_")


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    with no_grad():
        return write(tensor, filled(tuple(tensor.shape), tensor.dtype, val), "constant_")


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Evenly up to `gain √(6 / (fan_in + fan_out))` (Glorot and Bengio 2010)."""
    fan_in, fan_out = _fans(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with deviation `gain √(2 / (fan_in + fan_out))` (Glorot and Bengio 2010)."""
    fan_in, fan_out = _fans(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise located(ArgumentError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']"))
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Evenly up to `gain √(3 / fan)` (He et al. 2015, arXiv:1502.01852); `a` is a leaky ReLU's slope."""
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * _kaiming_deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Normal with deviation `gain / √fan` (He et al. 2015, arXiv:1502.01852); `a` is a leaky ReLU's slope."""
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming_deviation(tensor, a, mode, nonlinearity), generator)


def _matrix(tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise located(ArgumentError(f"Only tensors with 2 dimensions are supported{operand_lines([tensor.type_])}"))


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix: ones on the diagonal, zeros elsewhere.

    >>> import jitgrad as jg
    >>> eye_(jg.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    _matrix(tensor)
    with no_grad():
        return write(tensor, FUNCTIONS["eye"](*tensor.shape, dtype=tensor.dtype, device=tensor.device), "eye_")


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Weights of a convolution that hands on its input: in each group, channel `i` of the result is channel `i`."""
    if tensor.ndim not in (3, 4, 5):
        raise located(
            ArgumentError(f"Only tensors with 3, 4, or 5 dimensions are supported{operand_lines([tensor.type_])}")
        )
    out, channels, *window = tensor.shape
    if out % groups:
        raise located(ArgumentError(f"dirac_: dim 0 must be divisible by groups, and {out} by {groups} is not"))
    size = out // groups
    with no_grad():
        constant_(tensor, 0.0)
        centre = tuple(n // 2 for n in window)
        for group in range(groups):
            for i in range(min(size, channels)):
                tensor[(group * size + i, i, *centre)] = 1
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A random matrix whose rows, or columns where there are fewer, are orthonormal (Saxe et al. 2013).

    Dims beyond the second count as columns. The matrix is uniformly distributed: the Q of a normal one, with the signs
    that make R's diagonal positive.
    """
    if tensor.ndim < 2:
        raise located(
            ArgumentError(f"Only tensors with 2 or more dimensions are supported{operand_lines([tensor.type_])}")
        )
    if tensor.numel() == 0:  # type: ignore[attr-defined]
        return tensor
    rows = tensor.shape[0]
    shape = (rows, math.prod(tensor.shape[1:]))
    wide = rows < shape[1]
    with no_grad():
        flat = tensor.new_empty(shape[::-1] if wide else shape)  # type: ignore[attr-defined]
        q, r = FUNCTIONS["qr"](normal_(flat, 0.0, 1.0, generator))
        q = q * r.diagonal().sign()
        return write(tensor, ((q.t() if wide else q) * gain).reshape(tuple(tensor.shape)), "orthogonal_")


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal numbers, the share `sparsity` of each column, rounded up, being zero (Martens 2010)."""
    _matrix(tensor)
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        normal_(tensor, 0.0, std, generator)
        order = uniform_(tensor.new_empty((rows, columns)), generator=generator).argsort(0)  # type: ignore[attr-defined]
        tensor.scatter_(0, order[:zeros], 0.0)  # type: ignore[attr-defined]
    return tensor


def _deprecated(current: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under its old name, without the underscore; it warns, as PyTorch's does."""
    name = current.__name__[:-1]

    def function(*args: Any, **kwargs: Any) -> Tensor:
        new = current.__name__
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return current(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Deprecated: `{current.__name__}`."
    return function


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
