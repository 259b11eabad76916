"""`assert_close`: whether two results are equal up to rounding, and if not, where and by how much."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

from ..autograd.grad_mode import no_grad
from ..creation import as_tensor
from ..promotion import promote_types
from ..tensor import Tensor
from .messages import scalar_mismatch, tensor_mismatch

Message = str | Callable[[str], str] | None

# (rtol, atol) by dtype; integers and bool must be equal.
TOLERANCES: Mapping[DType, tuple[float, float]] = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_NUMBER_DTYPES = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}


class Mismatch(Exception):
    """What to raise: the class, the text, and the item that it is about."""

    def __init__(self, type: type[Exception], text: str, path: tuple[Any, ...]) -> None:
        super().__init__(text)
        self.type = type
        self.text = text
        self.path = path

    def error(self, msg: Message) -> Exception:
        """The exception for the user, with his text or what his function makes of ours."""
        if isinstance(msg, str):
            return self.type(msg)
        text = self.text
        if self.path:
            text += f"\n\nThe failure occurred for item {''.join(str([item]) for item in self.path)}"
        return self.type(msg(text) if callable(msg) else text)


@dataclass(frozen=True)
class _Options:
    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: Message = None,
) -> None:  # fmt: skip
    """Raise `AssertionError` unless `|actual - expected| <= atol + rtol * |expected|`, and the types are the same.

    Takes tensors, NumPy arrays, numbers, bools, None, and sequences and mappings of those. Tolerances come from the
    dtypes, unless both are given: float16 1e-3, bfloat16 1.6e-2, float32 1.3e-6, float64 1e-7 relative; 1e-5, and
    1e-7 for float64, absolute; other types must be equal. Infinities are close if equal, NaN with `equal_nan`. `msg` is
    a text instead of the generated one, or a function of it.

    >>> import jitgrad as jg
    >>> jg.testing.assert_close(jg.tensor([1.0, 2.0]), jg.tensor([1.0, 2.0 + 1e-7]))
    >>> jg.testing.assert_close({"a": 1.0}, {"a": 1.5}, rtol=0.1, atol=0)
    Traceback (most recent call last):
        ...
    AssertionError: Scalars are not close!
    <BLANKLINE>
    Expected 1.5 but got 1.0.
    Absolute difference: 0.5 (up to 0 allowed)
    Relative difference: 0.3333333333333333 (up to 0.1 allowed)
    <BLANKLINE>
    The failure occurred for item ['a']
    """
    options = _Options(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride
    )  # fmt: skip
    try:
        pairs = _pairs(actual, expected, (), options)
    except Mismatch as mismatch:
        raise mismatch.error(None) from None
    for compare in pairs:
        try:
            with no_grad():
                compare()
        except Mismatch as mismatch:
            raise mismatch.error(msg) from None


def _pairs(actual: Any, expected: Any, path: tuple[Any, ...], options: _Options) -> list[Callable[[], None]]:
    """Comparisons to be made, of all leaves."""
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise Mismatch(
                AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path
            )
        items: Any = enumerate(zip(actual, expected, strict=True))
        return [p for i, (a, e) in items for p in _pairs(a, e, (*path, i), options)]
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        return [p for k in _keys(actual, expected, path) for p in _pairs(actual[k], expected[k], (*path, k), options)]
    return [_pair(actual, expected, path, options)]


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _keys(actual: Mapping[Any, Any], expected: Mapping[Any, Any], path: tuple[Any, ...]) -> list[Any]:
    missing, extra = expected.keys() - actual.keys(), actual.keys() - expected.keys()
    if missing or extra:
        raise Mismatch(
            AssertionError,
            f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {sorted(missing)}\n"
            f"Additional keys in the actual mapping: {sorted(extra)}",
            path,
        )
    try:
        return sorted(actual)
    except TypeError:
        return list(actual)


def _pair(actual: Any, expected: Any, path: tuple[Any, ...], options: _Options) -> Callable[[], None]:
    """The comparison of two leaves."""
    if actual is None or expected is None:
        return lambda: _compare_none(actual, expected, path)
    both = (actual, expected)
    if all(isinstance(x, (bool, np.bool_)) for x in both):
        return lambda: _compare_bools(bool(actual), bool(expected), path)
    if all(isinstance(x, (int, float, complex, np.number)) for x in both):
        a, e = (x.item() if isinstance(x, np.number) else x for x in both)
        kinds = [_NUMBER_DTYPES[next(t for t in (int, float, complex) if isinstance(x, t))] for x in (a, e)]
        limits = _tolerances(kinds, path, options)
        return lambda: _compare_numbers(a, e, limits, path, options)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if related and (options.allow_subclasses or type(actual) is type(expected)):
        tensors = [_as_tensor(x) for x in both]
        if None not in tensors:
            t, u = tensors
            found = _tolerances([t.dtype, u.dtype], path, options)  # type: ignore[union-attr]
            return lambda: _compare_tensors(t, u, found, path, options)
    raise Mismatch(
        TypeError, f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", path
    )


def _as_tensor(x: Any) -> Tensor | None:
    if isinstance(x, Tensor):
        return x
    try:
        return as_tensor(x)
    except Exception:
        return None


def _tolerances(kinds: Sequence[DType], path: tuple[Any, ...], options: _Options) -> tuple[float, float]:
    rtol, atol = options.rtol, options.atol
    if rtol is not None and atol is not None:
        return rtol, atol
    if rtol is not None or atol is not None:
        missing = "rtol" if rtol is None else "atol"
        raise Mismatch(
            ValueError, f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.", path
        )
    found = [TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
    return max(r for r, _ in found), max(a for _, a in found)


def _compare_none(actual: Any, expected: Any, path: tuple[Any, ...]) -> None:
    if not (actual is None and expected is None):
        raise Mismatch(AssertionError, f"None mismatch: {actual} is not {expected}", path)


def _compare_bools(actual: bool, expected: bool, path: tuple[Any, ...]) -> None:
    if actual is not expected:
        raise Mismatch(AssertionError, f"Booleans mismatch: {actual} is not {expected}", path)


def _compare_numbers(
    actual: Any, expected: Any, limits: tuple[float, float], path: tuple[Any, ...], options: _Options
) -> None:  # fmt: skip
    rtol, atol = limits
    if options.check_dtype and type(actual) is not type(expected):
        raise Mismatch(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.", path)
    if actual == expected or (options.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    difference = abs(actual - expected)
    if not (cmath.isfinite(difference) and difference <= atol + rtol * abs(expected)):
        raise Mismatch(AssertionError, scalar_mismatch(actual, expected, rtol, atol), path)


def _compare_tensors(
    actual: Any, expected: Any, limits: tuple[float, float], path: tuple[Any, ...], options: _Options
) -> None:  # fmt: skip
    def differs(name: str, x: Any, y: Any) -> NoReturn:
        raise Mismatch(AssertionError, f"The values for attribute '{name}' do not match: {x} != {y}.", path)

    if actual.shape != expected.shape:
        differs("shape", actual.shape, expected.shape)
    if options.check_stride and actual.stride() != expected.stride():
        differs("stride()", actual.stride(), expected.stride())
    if options.check_device and actual.device != expected.device:
        differs("device", actual.device, expected.device)
    if options.check_dtype and actual.dtype != expected.dtype:
        differs("dtype", actual.dtype, expected.dtype)
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        dtype = promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(dtype), expected.to(dtype)
    rtol, atol = limits
    matches = actual.isclose(expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if matches.all():
        return
    if actual.ndim == 0:
        raise Mismatch(AssertionError, scalar_mismatch(actual.item(), expected.item(), rtol, atol), path)
    raise Mismatch(AssertionError, tensor_mismatch(actual, expected, matches, rtol, atol), path)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """The older `assert_close`, which converts its arguments to tensors and ignores their dtypes and devices."""
    warnings.warn("assert_allclose is deprecated; use assert_close instead.", FutureWarning, stacklevel=2)
    actual, expected = as_tensor(actual), as_tensor(expected)
    if rtol is None and atol is None:
        found = [TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = max(r for r, _ in found), max(a for _, a in found)
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False,
        check_stride=False, msg=msg or None,
    )  # fmt: skip
