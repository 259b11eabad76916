"""Tracked sizes: what a function does with the lengths of its tensors while it is exported.

While a trace runs, `Tensor.shape` and its like give integers that know of which dimensions they are made. Arithmetic
carries that along; a comparison that user code makes becomes a constraint of the program, with its line. Comparisons
inside the library are none: whether they matter is found out by tracing at several sizes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from jitgrad.ir.errors import CompileError
from jitgrad.ir.location import Location, is_library_file
from jitgrad.ir.symbols import Expression, SymbolicFloat, SymbolicInt, as_expression, combine, symbolic

from ..mode import local
from ..tensor import Size, Tensor
from .dims import COMPARISONS, NEGATED, Constraint


class SizeRecorder:
    """What one trace finds out about sizes: constraints, and uses that can't be followed."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.constraints: dict[tuple[str, str, str], Constraint] = {}

    def track(self, value: Any, expression: Expression) -> Any:
        """`value`, which is `expression`, as a tracked number."""
        if expression.fn == "number":
            return value
        made = (TracedInt if isinstance(value, int) else TracedFloat)(value, expression)
        made.recorder = self
        return made

    def symbolic(self, n: Any) -> Any:
        """A length as a number tracked here, if it is symbolic; it may come from an op that another trace made."""
        if not isinstance(n, SymbolicInt):
            return n
        known = all(name in self.sizes for name in n.expression.names()) and n.expression.at(self.sizes) == int(n)
        return self.track(int(n), n.expression) if known else int(n)

    def compare(self, left: Any, relation: str, right: Any, holds: bool) -> None:
        """Two numbers were compared, and the comparison `holds` or not; who did is two frames up."""
        frame = sys._getframe(2)
        a, b = as_expression(left), as_expression(right)
        if a == b or not _is_users(frame):
            return
        relation = relation if holds else NEGATED[relation]
        self.constraints.setdefault(
            (str(a), relation, str(b)), Constraint(a, relation, b, str(Location(frame.f_code, frame.f_lasti)))
        )


def _is_users(frame: FrameType | None) -> bool:
    if frame is None or is_library_file(frame.f_code.co_filename):
        return False
    code = frame.f_code
    return not (code.co_filename == "<string>" and code.co_name.startswith("__"))  # what a dataclass generates


def _arithmetic(fn: str, method: str, swapped: bool) -> Callable[[Any, Any], Any]:
    plain = getattr(int, method), getattr(float, method)

    def calculate(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        number = plain[0](self, other) if isinstance(self, int) else NotImplemented
        if number is NotImplemented:
            number = plain[1](float(self), float(other))
        if isinstance(number, complex) or isinstance(other, bool):
            return number
        operands = (other, self) if swapped else (self, other)
        return self.recorder.track(number, combine(fn, *map(as_expression, operands)))

    return calculate


def _comparison(relation: str, method: str) -> Callable[[Any, Any], Any]:
    def compare(self: Any, other: Any) -> Any:
        kind = int if isinstance(self, int) and isinstance(other, int) else float
        if not isinstance(other, (int, float)):
            return NotImplemented
        holds = COMPARISONS[relation](kind(self), kind(other))
        self.recorder.compare(self, relation, other, holds)
        return holds

    compare.__name__ = method
    return compare


class _Tracked:
    """What tracked integers and floats have in common."""

    recorder: SizeRecorder
    expression: Expression

    def __bool__(self) -> bool:
        number = int(self) if isinstance(self, int) else float(self)  # type: ignore[arg-type]
        self.recorder.compare(self, "!=", 0, number != 0)
        return number != 0

    def __hash__(self) -> int:
        frame = sys._getframe(1)
        if _is_users(frame):
            error = CompileError(
                f"export: the size {self.expression} is used as a key or in a set; what follows from that is not seen. "
                "Use int(size) if it does not matter"
            )
            error.attach_location(str(Location(frame.f_code, frame.f_lasti)))
            raise error
        return hash(int(self)) if isinstance(self, int) else hash(float(self))  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        return (int, (int(self),)) if isinstance(self, int) else (float, (float(self),))  # type: ignore[arg-type]

    def __pos__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        return 0 - self  # type: ignore[operator]

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other  # type: ignore[operator]

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __repr__(self) -> str:
        return repr(int(self) if isinstance(self, int) else float(self))  # type: ignore[arg-type]

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(int(self) if isinstance(self, int) else float(self), spec)  # type: ignore[arg-type]


class TracedInt(_Tracked, SymbolicInt):
    """An integer that is `expression`. To the program being exported it looks like any other."""

    def __ceil__(self) -> Any:
        return self

    __floor__ = __trunc__ = __round__ = __abs__ = __ceil__


class TracedFloat(_Tracked, SymbolicFloat):
    """A float that is `expression`."""

    def __floor__(self) -> Any:
        return self._rounded(1)

    def __ceil__(self) -> Any:
        return self._rounded(-1)

    def _rounded(self, sign: int) -> Any:
        """The floor, or for -1 the ceiling, of a quotient of integers."""
        e = self.expression
        number = float(self).__floor__() if sign == 1 else float(self).__ceil__()
        if e.fn != "/" or not all(isinstance(a.at(self.recorder.sizes), int) for a in e.args):
            return number
        whole = combine("//", combine("*", e.args[0], as_expression(sign)), e.args[1])
        return self.recorder.track(number, combine("*", whole, as_expression(sign)))


def _define(kind: type) -> None:
    for fn, name in (("+", "add"), ("-", "sub"), ("*", "mul"), ("//", "floordiv"), ("/", "truediv"), ("mod", "mod"),
                     ("pow", "pow")):  # fmt: skip
        setattr(kind, f"__{name}__", _arithmetic(fn, f"__{name}__", swapped=False))
        setattr(kind, f"__r{name}__", _arithmetic(fn, f"__r{name}__", swapped=True))
    for relation, name in (("==", "eq"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")):
        setattr(kind, f"__{name}__", _comparison(relation, f"__{name}__"))


_define(TracedInt)
_define(TracedFloat)


class _Accessors:
    """Tracking properties in the place of `Tensor.shape` and its like, only while some thread exports.

    So eager code pays nothing for them.
    """

    _names: Final = ("shape", "numel", "nelement")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._originals: dict[str, Any] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Inside, tensors of traces that know symbolic shapes show them."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._originals = {name: vars(Tensor)[name] for name in self._names}
                self._install()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    for name, original in self._originals.items():
                        setattr(Tensor, name, original)

    def _install(self) -> None:
        plain, numel = self._originals["shape"].fget, self._originals["numel"]

        def shape(t: Tensor) -> Size:
            tracer = local.mode.tracer
            found = None if tracer is None else getattr(tracer, "tracked_shape", _nothing)(t)
            return plain(t) if found is None else Size(found)  # type: ignore[no-any-return]

        def count(input: Tensor) -> Any:
            found = shape(input)
            return found.numel() if any(isinstance(n, TracedInt) for n in found) else numel(input)

        Tensor.shape = property(shape, doc=plain.__doc__)  # type: ignore[assignment, method-assign]
        Tensor.numel = Tensor.nelement = count  # type: ignore[attr-defined]


def _nothing(t: Tensor) -> None:
    return None


accessors = _Accessors()

__all__ = ["SizeRecorder", "TracedFloat", "TracedInt", "accessors", "symbolic"]
