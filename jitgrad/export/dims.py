"""Named dimensions and what must hold of them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jitgrad.ir.errors import ArgumentError
from jitgrad.ir.symbols import CALLS, Expression

from ..errors import located

LARGEST: Final = 2**40  # no length of a dimension goes beyond this
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED: Final = frozenset({*CALLS, "inf", "nan"})
COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Dim:
    """A dimension whose length is chosen at each call: `min` to `max`, in steps of `step` (multiples of it).

    Dimensions of one name have one length. `example` is the length at export.

    >>> import jitgrad as jg
    >>> batch = jg.export.Dim("batch", max=1024)
    >>> program = jg.export(lambda x: x * 2, (jg.ones(4, 3),), dynamic={"x": {0: batch}})
    >>> program(jg.ones(9, 3)).shape
    jitgrad.Size([9, 3])
    """

    name: str
    min: int = 1
    max: int | None = None
    step: int = 1
    example: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.match(self.name) or self.name in _RESERVED:
            rule = f"letters a-z, digits and underscores, no digit first, and none of {', '.join(sorted(_RESERVED))}"
            raise located(ArgumentError(f"Dim: {self.name!r} is no name for a dimension; names are {rule}"))
        if not 0 <= self.min <= self.largest <= LARGEST or self.step < 1:
            raise located(ArgumentError(f"Dim: no length is from {self.min} to {self.max} in steps of {self.step}"))

    @property
    def largest(self) -> int:
        """The greatest length."""
        return LARGEST if self.max is None else self.max

    def allows(self, n: int) -> bool:
        """Whether the length may be `n`."""
        return self.min <= n <= self.largest and n % self.step == 0

    def __str__(self) -> str:
        if self.max is not None:
            text = f"{self.min} <= {self.name} <= {self.max}"
        else:
            text = f"{self.name} >= {self.min}"
        return text if self.step == 1 else f"{text}, a multiple of {self.step}"


@dataclass(frozen=True)
class Constraint:
    """`left relation right`, taken for granted by the user's line `location`."""

    left: Expression
    relation: str
    right: Expression
    location: str | None = None

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it does at these sizes."""
        return COMPARISONS[self.relation](self.left.at(sizes), self.right.at(sizes))

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"
