"""Window functions under their older names, `jitgrad.hann_window` and the like: one period unless `periodic=False`."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import OperationError

from ..creation import check_dtype
from ..device import as_device
from ..errors import located
from ..functions.registry import public
from ..hot_path import repeats
from ..mode import local
from ..tensor import Tensor
from .windows import bessel_window, cosines, made, triangle


def _made(name: str, length: int, values: Any, options: dict[str, Any]) -> Tensor:
    as_device(options["device"])
    dtype = check_dtype(options["dtype"], local.mode.default_dtype)
    if not dtype.is_floating_point:
        raise located(OperationError(f"{name} expects floating point dtypes, got: {dtype.name}"))
    if length < 0:
        raise located(OperationError(f"{name} requires non-negative window_length, got window_length={length}"))
    return made(values(int(length)), dtype, options["requires_grad"])


@public(method=False)
@repeats
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`(1 - cos(phase)) / 2`.

    >>> import jitgrad as jg
    >>> jg.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("hann_window", window_length, lambda n: cosines(n, (0.5, 0.5), not periodic), options)


@public(method=False)
@repeats
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: DType | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`alpha - beta cos(phase)`.

    >>> import jitgrad as jg
    >>> jg.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("hamming_window", window_length, lambda n: cosines(n, (alpha, beta), not periodic), options)


@public(method=False)
@repeats
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`0.42 - 0.5 cos(phase) + 0.08 cos(2 phase)`.

    >>> import jitgrad as jg
    >>> jg.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("blackman_window", window_length, lambda n: cosines(n, (0.42, 0.5, 0.08), not periodic), options)


@public(method=False)
@repeats
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: DType | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle.

    >>> import jitgrad as jg
    >>> jg.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("bartlett_window", window_length, lambda n: triangle(n, not periodic), options)


@public(method=False)
@repeats
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: DType | None = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Kaiser's window: `i0(beta sqrt(1 - x²)) / i0(beta)`, x from -1 to 1.

    >>> import jitgrad as jg
    >>> jg.kaiser_window(4, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """
    options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _made("kaiser_window", window_length, lambda n: bessel_window(n, beta, not periodic), options)
