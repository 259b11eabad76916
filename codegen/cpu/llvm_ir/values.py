"""What is built before all of it is known: its text is made in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .types import PointerType, Type, Value

if TYPE_CHECKING:
    from .module import Block


class Phi(Value):
    """One of several values, depending on where control came from."""

    __slots__ = ("incoming",)

    def __init__(self, type: Type, ref: str) -> None:
        super().__init__(type, ref)
        self.incoming: list[tuple[Value, Block]] = []

    def add_incoming(self, value: Value, block: Block) -> None:
        """It is `value` where control comes from `block`."""
        self.incoming.append((value, block))

    def __str__(self) -> str:
        pairs = ", ".join([f"[{value.ref}, %{block.name}]" for value, block in self.incoming])
        return f"  {self.ref} = phi {self.type.text} {pairs}"


class Alloca(Value):
    """Memory on the stack: `count` elements, at a multiple of `align`."""

    __slots__ = ("align", "count", "element")

    def __init__(self, ref: str, element: Type, count: Value | None) -> None:
        super().__init__(PointerType(), ref)
        self.element = element
        self.count = count
        self.align: int | None = None

    def __str__(self) -> str:
        count = "" if self.count is None else f", {self.count.type.text} {self.count.ref}"
        align = "" if self.align is None else f", align {self.align}"
        return f"  {self.ref} = alloca {self.element.text}{count}{align}"


class Switch:
    """Goes on in the block that belongs to a number, or else in `default`."""

    __slots__ = ("cases", "default", "value")

    def __init__(self, value: Value, default: Block) -> None:
        self.value = value
        self.default = default
        self.cases: list[tuple[Value, Block]] = []

    def add_case(self, number: Value, block: Block) -> None:
        """Where `value` is `number`, go on in `block`."""
        self.cases.append((number, block))

    def __str__(self) -> str:
        cases = " ".join([f"{n.type.text} {n.ref}, label %{b.name}" for n, b in self.cases])
        return f"  switch {self.value.type.text} {self.value.ref}, label %{self.default.name} [{cases}]"
