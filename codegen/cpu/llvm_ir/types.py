"""Types, of which equal ones are the same object, and values: what instructions take and give."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T", bound="Type")


class Type:
    """A type, known by its `text`. A vector has `count` elements of type `element`; others are their own element."""

    __slots__ = ("_numbers", "count", "element", "text", "width")
    text: str
    element: Type
    count: int
    width: int  # of integers, in bits
    _numbers: dict[int, Constant]

    def __call__(self, number: int | float) -> Constant:
        """A literal."""
        if isinstance(number, float):
            return Constant(self, number)
        found = self._numbers.get(number)
        if found is None:
            found = self._numbers[number] = Constant(self, number)
        return found

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"


_TABLE: Final[dict[str, Any]] = {}


def _made(kind: type[T], text: str) -> T:
    """The one type with this text, which is of class `kind`."""
    found: T | None = _TABLE.get(text)
    if found is not None:
        return found
    made = object.__new__(kind)
    made.text, made.element, made.count, made.width, made._numbers = text, made, 1, 0, {}
    return _TABLE.setdefault(text, made)  # type: ignore[no-any-return]


class VoidType(Type):
    """No value."""

    __slots__ = ()

    def __new__(cls) -> VoidType:
        return _made(cls, "void")


class IntType(Type):
    """Integers of `width` bits."""

    __slots__ = ()

    def __new__(cls, width: int) -> IntType:
        made = _made(cls, f"i{width}")
        made.width = width
        return made


class HalfType(Type):
    """IEEE half precision."""

    __slots__ = ()

    def __new__(cls) -> HalfType:
        return _made(cls, "half")


class FloatType(Type):
    """IEEE single precision."""

    __slots__ = ()

    def __new__(cls) -> FloatType:
        return _made(cls, "float")


class DoubleType(Type):
    """IEEE double precision."""

    __slots__ = ()

    def __new__(cls) -> DoubleType:
        return _made(cls, "double")


class PointerType(Type):
    """An address of whatever it may be."""

    __slots__ = ()

    def __new__(cls) -> PointerType:
        return _made(cls, "ptr")


class VectorType(Type):
    """`count` elements in a register."""

    __slots__ = ()

    def __new__(cls, element: Type, count: int) -> VectorType:
        made = _made(cls, f"<{count} x {element.text}>")
        made.element, made.count = element, count
        return made


class ArrayType(Type):
    """`count` elements in memory."""

    __slots__ = ()

    def __new__(cls, element: Type, count: int) -> ArrayType:
        made = _made(cls, f"[{count} x {element.text}]")
        made.element, made.count = element, count
        return made


class StructType(Type):
    """Fields one after another."""

    __slots__ = ("fields",)
    fields: tuple[Type, ...]

    def __new__(cls, *fields: Type) -> StructType:
        made = _made(cls, f"{{{', '.join(f.text for f in fields)}}}")
        made.fields = fields
        return made


class FunctionType(Type):
    """A function of `args` that returns a `return_type`."""

    __slots__ = ("args", "return_type")
    args: tuple[Type, ...]
    return_type: Type

    def __new__(cls, return_type: Type, args: Sequence[Type]) -> FunctionType:
        made = _made(cls, f"{return_type.text} ({', '.join(a.text for a in args)})")
        made.return_type, made.args = return_type, tuple(args)
        return made


class Value:
    """A value of type `type`; `ref` is what the text calls it."""

    __slots__ = ("ref", "type")

    def __init__(self, type: Type, ref: str) -> None:
        self.type = type
        self.ref = ref

    def __repr__(self) -> str:
        return f"<{self.type.text} {self.ref}>"


class _Undefined:
    """No value in particular."""


Undefined: Final = _Undefined()
Content: TypeAlias = int | float | Sequence[int] | _Undefined | None


class Constant(Value):
    """A literal: a number, integers one a lane, zero (None), or `Undefined`.

    `literal` is the number that it holds in every lane, if known.

    >>> Constant(IntType(8), 5), Constant(FloatType(), 0.5), Constant(VectorType(IntType(8), 2), [1, 2])
    (<i8 5>, <float 0x3fe0000000000000>, <<2 x i8> <i8 1, i8 2>>)
    """

    __slots__ = ("literal",)

    def __init__(self, type: Type, content: Content) -> None:
        super().__init__(type, _text(type, content))
        self.literal: int | float | None = content if isinstance(content, int | float) else None

    @classmethod
    def of_text(cls, type: Type, text: str, literal: int | float | None = None) -> Constant:
        """A constant given by its text."""
        made = object.__new__(cls)
        made.type, made.ref, made.literal = type, text, literal
        return made


def _text(type: Type, content: Content) -> str:
    if content is None:
        return "zeroinitializer"
    if isinstance(content, _Undefined):
        return "undef"
    if isinstance(content, int | float):
        return _number(type.text, content)
    return f"<{', '.join([f'{type.element.text} {int(x)}' for x in content])}>"


def _number(type: str, number: int | float) -> str:
    """Floats as the bits of the double that they are."""
    if type[0] == "i":
        return str(int(number))
    kind = {"float": "f", "half": "e", "double": "d"}[type]
    (rounded,) = struct.unpack(kind, struct.pack(kind, number)) if kind != "d" else (number,)
    return f"0x{int.from_bytes(struct.pack('>d', rounded), 'big'):016x}"
