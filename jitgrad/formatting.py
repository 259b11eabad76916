"""How tensors print: `tensor([[1., 2.]], grad_fn=<MulBackward0>)`, character for character as PyTorch does.

One number format for the whole tensor: integers print as such (with a dot if floating point), others with a fixed
number of decimals, or in scientific notation if magnitudes differ by more than 1000 or are very large or small.
Tensors of more elements than a threshold show their edges only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError

from .errors import located
from .functions.registry import public
from .levels import has_samples
from .mode import local
from .tensor import Tensor, read_array

Array = np.ndarray[Any, Any]


@dataclasses.dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = _Options()
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


@public(method=False)
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print; what is not given stays, but `sci_mode` becomes automatic again.

    `profile` ("default", "short" or "full") sets the rest to a known state first.

        >>> import jitgrad as jg
        >>> jg.set_printoptions(precision=2)
        >>> jg.tensor([1.23456])
        tensor([1.23])
        >>> jg.set_printoptions(profile="default")
    """
    if profile is not None and profile not in _PROFILES:
        raise located(ArgumentError(f"set_printoptions: profile must be one of {sorted(_PROFILES)}, not {profile!r}"))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = dict(_PROFILES[profile]) if profile is not None else {}
    changes.update({k: v for k, v in given.items() if v is not None})
    for name, value in changes.items():
        setattr(_options, name, value)
    _options.sci_mode = sci_mode


@public(method=False)
def get_printoptions() -> dict[str, Any]:
    """The current print options, as arguments for `set_printoptions`."""
    return dataclasses.asdict(_options)


@public(method=False)
@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """A context with other print options."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


Format = Callable[[Any], str]


def _formatter(values: Array) -> tuple[Format, int]:
    """The format of one number, for all of `values`, and its width."""
    if values.dtype.kind != "f":
        width = max(1, *(len(str(v)) for v in values.tolist()))
        return lambda v: str(v).rjust(width), width
    known = values[np.isfinite(values) & (values != 0)]
    whole = bool((known == np.ceil(known)).all())
    spec = f".{_options.precision}{'e' if _is_scientific(known) else 'f'}"
    if whole and spec[-1] == "f":
        width = max(1, *(len(f"{v:.0f}") + 1 for v in known.tolist()), 1)
        return lambda v: (f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}").rjust(width), width
    width = max(1, *(len(format(v, spec)) for v in known.tolist()), 1)
    return lambda v: format(v, spec).rjust(width), width


def _is_scientific(known: Array) -> bool:
    if known.size == 0:
        return False
    if _options.sci_mode is not None:
        return _options.sci_mode
    magnitudes = np.abs(known.astype(np.float64))
    low, high = float(magnitudes.min()), float(magnitudes.max())
    return high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4


def _element_format(array: Array) -> tuple[Format, int]:
    if array.dtype.kind != "c":
        return _formatter(array.reshape(-1))
    real, real_width = _formatter(array.real.reshape(-1))
    imag, imag_width = _formatter(array.imag.reshape(-1))

    def both(v: complex) -> str:
        text = (imag(v.imag) + "j").lstrip()
        return real(v.real) + ("" if text[0] in "+-" else "+") + text

    return both, real_width + imag_width + 1


def _edges(array: Array) -> Array:
    """The elements shown of a large array: the first and last few along each axis."""
    n = _options.edgeitems
    for axis, length in enumerate(array.shape):
        if n == 0:
            array = np.take(array, [], axis)
        elif length > 2 * n:
            array = np.take(array, [*range(n), *range(length - n, length)], axis)
    return array


def _text(array: Array, indent: int, summarize: bool, fmt: Format, width: int) -> str:
    """The nested brackets; `array` is the whole tensor or a part of it, `indent` the column it starts in."""
    n = _options.edgeitems
    if array.ndim == 0:
        return fmt(array.item())
    if array.ndim == 1:
        return _row(array, indent, summarize, fmt, width)
    if summarize and array.shape[0] > 2 * n:
        head = [_text(a, indent + 1, summarize, fmt, width) for a in array[:n]]
        tail = [_text(a, indent + 1, summarize, fmt, width) for a in (array[-n:] if n else ())]
        parts = [*head, "...", *tail]
    else:
        parts = [_text(a, indent + 1, summarize, fmt, width) for a in array]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _row(array: Array, indent: int, summarize: bool, fmt: Format, width: int) -> str:
    n = _options.edgeitems
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    if summarize and not n:
        words = ["..."]
    elif summarize and array.shape[0] > 2 * n:
        words = [*map(fmt, array[:n].tolist()), " ...", *map(fmt, array[-n:].tolist())]
    else:
        words = list(map(fmt, array.tolist()))
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _suffixes(t: Tensor) -> list[str]:
    default = local.mode.default_dtype
    silent = (default,) if t.type_.numel == 0 else (default, dtypes.to_complex(default), dtypes.int64, dtypes.bool_)
    out = []
    if t.type_.numel == 0 and t.ndim != 1:
        out.append(f"size={tuple(t.shape)}")
    if t.device.type != "cpu":
        out.append(f"device='{t.device}'")
    if t.dtype not in silent:
        out.append(f"dtype={t.dtype!r}")
    if t.grad_fn is not None:
        out.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t.requires_grad:
        out.append("requires_grad=True")
    return out


def tensor_text(t: Tensor) -> str:
    """What `repr(t)` shows."""
    if local.mode.levels and has_samples(t):
        return repr(t._data)
    name = type(t).__name__
    prefix = "tensor(" if name in ("Tensor", "Parameter", "Buffer") else f"{name}("
    indent = len(prefix)
    array = read_array(t)
    if array.dtype == dtypes.bfloat16.np:
        array = array.astype(np.float32)
    text = "[]"
    if array.size:
        summarize = array.size > _options.threshold
        fmt, width = _element_format(_edges(array) if summarize else array)
        text = _text(array, indent, summarize, fmt, width)
    return _with_suffixes(prefix + text, _suffixes(t), indent)


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def _format(self: Tensor, spec: str) -> str:
    if self.ndim == 0:
        return format(read_array(self).item(), spec)
    return object.__format__(self, spec)


Tensor.__repr__ = tensor_text  # type: ignore[method-assign, assignment]
Tensor.__format__ = _format  # type: ignore[method-assign, assignment]
