"""What Python may ask a tracer while it traces: values, in one form or another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.ir.errors import CompileError
from jitgrad.ir.graph import Value
from jitgrad.ir.location import user_location

from ..arrays import on_host
from ..tensor import Tensor
from .flow import is_only_returned
from .questions import Question, content, is_short

if TYPE_CHECKING:
    from .cuts import Cuts
    from .deferred import Deferred


class Asking:
    """The part of a tracer that answers. A segment ends where the answer decides what Python does next."""

    cuts_in_place = True  # whether a segment may end in the middle of the function
    fullgraph: bool
    cuts: Cuts
    deferred: Deferred

    def value(self, t: Tensor) -> Value:
        """The value of a tensor now."""
        raise NotImplementedError

    def materialise(self, reason: str) -> None:
        """End the trace."""
        raise NotImplementedError

    def broken_off(self, reason: str, values: Sequence[Value], location: Any) -> CompileError:
        """What to raise where the whole function has to be one graph."""
        raise NotImplementedError

    def ask(self, tensors: Sequence[Tensor], question: Question) -> Any:
        """End a segment to ask the values of `tensors` something; the answer (tensors, if it makes arrays)."""
        location = user_location()
        if self.fullgraph:
            raise self.broken_off("a value is needed", [self.value(t) for t in tensors], location)
        why = "the number of elements depends on values" if question.makes else "Python needs a value"
        where = None if location is None else str(location)
        return self.cuts.ask([self.value(t) for t in tensors], question, why, where)

    def outcome(self, t: Tensor, of: Callable[[Any], Any]) -> Any:
        """`of` the elements, for a function of the module's level."""
        return self.ask((t,), Question(of))

    def computed(self, function: Callable[..., Any], tensors: Sequence[Tensor], fixed: tuple[Any, ...]) -> list[Tensor]:
        """What the host makes of the elements, in shapes that may depend on them: `function(*arrays, *fixed)`."""
        return self.ask(tensors, Question(function, fixed, makes=True))  # type: ignore[no-any-return]

    def defer(self, t: Tensor, convert: Callable[[Any], Any], is_float: bool = False) -> Any:
        """What stands for `convert(elements)`, if the calling method's caller can but return it; else None."""
        if not self.cuts_in_place or not is_only_returned():
            return None
        return self.deferred.add(self.value(t), convert, is_float)

    def read(self, t: Tensor) -> np.ndarray[Any, Any]:
        """The elements of `t`, which are only read."""
        if is_short(t.type_.nbytes):
            return self.outcome(t, content)  # type: ignore[no-any-return]
        self.materialise("many values of a tensor were read")
        return on_host(t._data)

    def nested(self, compiled: Callable[..., Any], f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The call of a compiled function inside this trace."""
        return f(*args, **kwargs)
