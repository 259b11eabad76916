"""`RuntimeFloat`: a Python float among the arguments of a compiled function, read anew at each call.

Arithmetic with tensors and numbers is captured, comparisons are answered like those of tensors. Whatever else looks at
it gets the number that it is now, and the trace notes that it holds for this number alone. It says that it is a
`float`, and stands for one only while it is traced.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .mode import local
from .tensor import Tensor

if TYPE_CHECKING:
    from .compiler.tracer import Tracer


class RuntimeFloat:
    """A number of argument leaves `roots` in a trace: a 0-d float64 tensor there, and what it is now."""

    __slots__ = ("_now", "_roots", "_tensor", "_tracer")

    def __init__(self, tracer: Tracer, roots: frozenset[int], tensor: Any, now: float) -> None:
        self._tracer = tracer
        self._roots = roots
        self._tensor = tensor
        self._now = now

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    def _exact(self) -> float:
        """What it is now; the trace holds for that alone."""
        self._tracer.exact_numbers |= self._roots
        return self._now

    def _is_traced(self) -> bool:
        return local.mode.tracer is not None and not self._tracer.is_over

    def _with(self, other: Any, apply: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
        """`apply(self, other)`, or the other way round; captured if both are numbers."""
        if isinstance(other, Tensor):
            return NotImplemented
        is_runtime = type(other) is RuntimeFloat
        if not self._is_traced() or not (is_runtime or type(other) in (float, int, bool)):
            pair = (self._exact(), other._exact() if is_runtime else other)
            return apply(*(pair[::-1] if swapped else pair))
        theirs = other._now if is_runtime else float(other)
        now = apply(theirs, self._now) if swapped else apply(self._now, theirs)
        given = other._tensor if is_runtime else theirs
        tensor = apply(given, self._tensor) if swapped else apply(self._tensor, given)
        return RuntimeFloat(self._tracer, self._roots | (other._roots if is_runtime else frozenset()), tensor, now)

    def _compared(self, other: Any, compare: Callable[[Any, Any], Any]) -> Any:
        """The answer of a comparison, under which the trace goes on."""
        is_runtime = type(other) is RuntimeFloat
        if self._is_traced() and (is_runtime or type(other) in (float, bool)):
            return bool(compare(self._tensor, other._tensor if is_runtime else float(other)))
        if isinstance(other, Tensor):
            return NotImplemented
        return compare(self._exact(), other._exact() if is_runtime else other)

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, operator.add, swapped=True)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, operator.sub, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, operator.mul, swapped=True)

    def __truediv__(self, other: Any) -> Any:
        if type(other) is RuntimeFloat and not other:
            return self._exact() / other._exact()  # raises
        return self._with(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented
        return self._with(other, operator.truediv, swapped=True) if self else other / self._exact()

    def __neg__(self) -> Any:
        return self * -1.0

    def __pos__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        return bool(self._tensor) if self._is_traced() else bool(self._exact())

    def __eq__(self, other: object) -> Any:
        return False if other is None or isinstance(other, str) else self._compared(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return True if other is None or isinstance(other, str) else self._compared(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

    def __hash__(self) -> int:
        return hash(self._exact())

    def __copy__(self) -> RuntimeFloat:
        return self

    def __deepcopy__(self, memo: Any) -> RuntimeFloat:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._exact(), dtype=dtype)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return float, (self._exact(),)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exact(), name)


def _of_float(name: str) -> Any:
    method = getattr(float, name)

    def exact(self: RuntimeFloat, *args: Any) -> Any:
        return method(self._exact(), *[x._exact() if type(x) is RuntimeFloat else x for x in args])

    exact.__name__ = exact.__qualname__ = name
    exact.__doc__ = "As of a float; the trace holds for this number alone."
    return exact


for _name in ("__abs__", "__ceil__", "__divmod__", "__float__", "__floor__", "__floordiv__", "__format__", "__int__",
              "__mod__", "__pow__", "__rdivmod__", "__repr__", "__rfloordiv__", "__rmod__", "__round__", "__rpow__",
              "__str__", "__trunc__"):  # fmt: skip
    setattr(RuntimeFloat, _name, _of_float(_name))
