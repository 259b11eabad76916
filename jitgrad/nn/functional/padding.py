"""Padding: of the last axes, with a number, a reflection, the edge, or around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.ir.errors import OperationError, ShapeError, UnsupportedError, operand_lines
from jitgrad.ir.ops.slicing import Pad

from ...autocasting import autocasts
from ...dispatch import apply
from ...errors import located
from ...functions.joining import cat, stretch
from ...functions.pointwise import check_tensor, expand, filled
from ...functions.registry import public
from ...functions.repeating import flip
from ...hot_path import hot
from ...tensor import Tensor

Number = bool | int | float | complex


@public(method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """`input` with `value` around it: `pad` has two widths for each axis, the last axis first; negative ones crop.

    >>> import jitgrad as jg
    >>> jg.constant_pad_nd(jg.tensor([1, 2]), (1, -1), 9)
    tensor([9, 1])
    """
    x = check_tensor(input, "constant_pad_nd")
    widths = _widths("constant_pad_nd", x, pad)
    low, high = [0] * x.ndim, [0] * x.ndim
    for axis, (before, behind) in widths.items():
        length = x.shape[axis]
        if length + before + behind < 0:
            raise located(
                ShapeError(
                    f"The input size {length}, plus negative padding {before} and {behind} resulted in a negative "
                    f"output size, which is invalid. Check dimension {axis} of your input."
                )
            )
        low[axis], high[axis] = max(before, 0), max(behind, 0)
        if before < 0 or behind < 0:
            start = min(max(-before, 0), length)
            x = stretch(x, axis, start, max(length - start + min(behind, 0), 0))
    return apply(Pad(tuple(low), tuple(high)), x, filled((), x.dtype, value))


def _widths(name: str, x: Tensor, pad: Sequence[int]) -> dict[int, tuple[int, int]]:
    """The widths in front and behind, by axis."""
    given = tuple(pad)
    if len(given) % 2:
        raise located(ShapeError("Padding length must be divisible by 2"))
    if len(given) > 2 * x.ndim:
        raise located(
            ShapeError(
                f"{name}: Padding length should be less than or equal to two times the input dimension but got "
                f"padding length {len(given)} and input of dimension {x.ndim}"
            )
        )
    widths = [n if isinstance(n, int) else int(n) for n in given]  # those that export tracks stay as they are
    return {x.ndim - 1 - i // 2: (widths[i], widths[i + 1]) for i in range(0, len(given), 2)}


@hot
@autocasts("pad")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`input` with more elements around it: `pad` has two widths for each axis, the last axis first.

    `mode` is "constant" (`value`, or 0), "reflect" (mirrored at the edge element), "replicate" (the edge
    element) or "circular" (from the other end). Negative widths crop.

    >>> import jitgrad as jg
    >>> jg.nn.functional.pad(jg.tensor([[1.0, 2.0, 3.0]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    x = check_tensor(input, "pad")
    if mode == "constant":
        return constant_pad_nd(x, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise located(OperationError(f'Padding mode "{mode}" doesn\'t take in value argument'))
    extend = {"reflect": _reflected, "replicate": _replicated, "circular": _around}.get(mode)
    if extend is None:
        raise located(UnsupportedError(f"Unrecognised padding mode {mode}"))
    _check_rank(x, pad)
    for axis, (low, high) in _widths("pad", x, pad).items():
        if low or high:
            x = _extended(x, axis, low, high, extend)
    return x if x is not input else x.clone()  # type: ignore[attr-defined, no-any-return]


def _check_rank(x: Tensor, pad: Sequence[int]) -> None:
    rank, remainder = divmod(len(tuple(pad)), 2)
    if remainder or rank not in (1, 2, 3) or x.ndim not in (rank + 1, rank + 2):
        raise located(
            UnsupportedError(
                "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: the last one to three "
                f"of an input's axes, behind one or two others, not {list(pad)}{operand_lines([x.type_])}"
            )
        )


def _extended(x: Tensor, axis: int, low: int, high: int, extend: Any) -> Tensor:
    length = x.shape[axis]
    if length + low + high <= 0:
        raise located(
            ShapeError(
                f"input (size: {length}) is too small for padding ({low}, {high}) at dimension {axis}"
                f"{operand_lines([x.type_])}"
            )
        )
    start, stop = max(-low, 0), length + min(high, 0)
    inner = stretch(x, axis, start, stop - start) if low < 0 or high < 0 else x
    # A crop on one side leaves the edge on the other; what is cut off does not come around.
    front, back = extend(inner if extend is _around else x, axis, max(low, 0), max(high, 0))
    return cat([t for t in (front, inner, back) if t is not None], axis)


def _reflected(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor | None, Tensor | None]:
    length = x.shape[axis]
    if max(low, high) >= length:
        raise located(
            ShapeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({low}, {high}) at dimension {axis} of input {list(x.shape)}"
            )
        )
    front = flip(stretch(x, axis, 1, low), axis) if low else None
    back = flip(stretch(x, axis, length - 1 - high, high), axis) if high else None
    return front, back


def _replicated(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor | None, Tensor | None]:
    def edge(place: int, count: int) -> Tensor | None:
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return expand(stretch(x, axis, place, 1), shape) if count else None

    length = x.shape[axis]
    if not length:
        raise located(ShapeError(f"replicate: dimension {axis} is empty{operand_lines([x.type_])}"))
    return edge(0, low), edge(length - 1, high)


def _around(x: Tensor, axis: int, low: int, high: int) -> tuple[Tensor | None, Tensor | None]:
    length = x.shape[axis]
    if max(low, high) > length:
        raise located(
            ShapeError(f"Padding value causes wrapping around more than once: ({low}, {high}) for length {length}")
        )
    front = stretch(x, axis, length - low, low) if low else None
    return front, stretch(x, axis, 0, high) if high else None
