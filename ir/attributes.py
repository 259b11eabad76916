"""Reads types, ops and their fields from tokens, and checks fields against the op class's annotations."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import JitgradError
from .expressions import ExpressionReader
from .fields import conforms, describe, field_types
from .graph import Graph
from .op import Op
from .ops.creation import Literal
from .symbols import Expression, symbolic
from .tokens import Token, Tokens
from .types import CPU, Device, TensorType

MAX_RANK: Final = 64
MAX_BYTES: Final = 2**62
MAX_DEPTH: Final = 32
MAX_DIGITS: Final = 400
_T = TypeVar("_T")
_DTYPES: Final = {d.short: d for d in dtypes.ALL}


class AttributeReader:
    """Reads ops from `tokens`; `read_graph` reads a sub-graph."""

    def __init__(
        self, tokens: Tokens, ops: Mapping[str, type[Op]], read_graph: Callable[[], Graph], sizes: Mapping[str, int]
    ) -> None:
        self.tokens = tokens
        self.sizes = sizes
        self.ops = ops
        self._read_graph = read_graph
        self._depth = 0
        self._types: dict[str, TensorType] = {}

    def op(self) -> Op:
        """An op: its name, and its fields in brackets."""
        tokens = self.tokens
        name = tokens.take("word", "the name of an op")
        cls = self.ops.get(name.text)
        if cls is None:
            tokens.fail(f"there is no op called {name}", name)
        values: dict[str, Any] = {}
        if tokens.accept("["):
            while not tokens.at("]"):
                self._named_field(cls, values)
                if not tokens.accept(","):
                    break
            tokens.expect("]")
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if field.name not in values and field.default is dataclasses.MISSING:
                tokens.fail(f"op {name} needs field {field.name!r}", name)
        return self.guard(name, lambda: cls(**values))

    def guard(self, token: Token, make: Callable[[], _T]) -> _T:
        """The result of `make`, whose errors become parse errors at `token`.

        An op's own rules are entitled to sane fields, so they may raise anything at insane ones.
        """
        try:
            return make()
        except JitgradError as error:
            self.tokens.fail(error.message, token)
        except Exception as error:
            self.tokens.fail(f"op {token} does not fit its fields and operands ({error})", token)

    def _named_field(self, cls: type[Op], values: dict[str, Any]) -> None:
        tokens = self.tokens
        name = tokens.take("word", "the name of a field")
        hint = field_types(cls).get(name.text)
        if hint is None:
            tokens.fail(f"op {cls.name!r} has no field {name}", name)
        if name.text in values:
            tokens.fail(f"field {name} is given twice", name)
        tokens.expect("=")
        start = tokens.current
        values[name.text] = value = self.field()
        if not conforms(value, hint):
            tokens.fail(f"field {name} of op {cls.name!r} must be {describe(hint)}", start)

    def field(self) -> Any:
        """A field's value."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.tokens.fail("nested too deeply")
        value = self._field()
        self._depth -= 1
        return value

    def _field(self) -> Any:
        tokens, token = self.tokens, self.tokens.current
        if token.kind == "number":
            return self.number()
        if token.kind == "string":
            return tokens.string("a string")
        if tokens.at("("):
            return self._tuple()
        if tokens.at("@"):
            return self.device()
        if tokens.at("{"):
            return self._symbolic()
        if token.kind != "word":
            tokens.fail(f"expected the value of a field, found {token}")
        if token.text in _WORDS:
            tokens.advance()
            return _WORDS[token.text]
        if token.text in _FORMS:
            return _FORMS[token.text](self)
        return self.op()

    def number(self) -> int | float:
        """An integer, or a float where there is a point or an exponent."""
        token = self.tokens.take("number", "a number")
        text = token.text
        if len(text) > MAX_DIGITS:
            self.tokens.fail("number too long", token)
        return int(text) if text.lstrip("-").isdigit() else float(text)

    def integer(self, what: str) -> int:
        """An integer that is not negative."""
        token = self.tokens.current
        value = self.number()
        if not isinstance(value, int) or value < 0:
            self.tokens.fail(f"expected {what}, found {token}", token)
        return value

    def type(self) -> TensorType:
        """A tensor type, such as `f32[2,3]` or `f32[2]@cuda:0`."""
        tokens = self.tokens
        start = tokens.current
        if start.kind == "type":
            tokens.advance()
            found = self._types.get(start.text)
            if found is None:
                found = self._types[start.text] = self._whole_type(start)
            return found
        tokens.take("word", "a type")
        if start.text not in _DTYPES:
            tokens.fail(f"expected a type, found {start}", start)
        tokens.expect("[")
        shape = [] if tokens.at("]") else [self._length()]
        while tokens.accept(","):
            shape.append(self._length())
        tokens.expect("]")
        device = self.device() if tokens.at("@") else CPU
        return self._within_bounds(TensorType(tuple(shape), _DTYPES[start.text], device), start)

    def _length(self) -> int:
        """An axis length: an integer, or an expression of the dimensions."""
        token = self.tokens.current
        value = self._evaluated(ExpressionReader(self.tokens, self.sizes).expression(), token)
        if not isinstance(value, int) or value < 0:
            self.tokens.fail(f"expected an axis length, found {token}", token)
        return value

    def _symbolic(self) -> int | float:
        """A number that is an expression of the dimensions, in braces."""
        token = self.tokens.expect("{")
        expression = ExpressionReader(self.tokens, self.sizes).expression()
        self.tokens.expect("}")
        return self._evaluated(expression, token)

    def _evaluated(self, expression: Expression, token: Token) -> int | float:
        try:
            value = symbolic(expression, self.sizes)
        except (ArithmeticError, ValueError, TypeError) as error:
            self.tokens.fail(f"{expression} can't be computed: {error}", token)
        if isinstance(value, complex):
            self.tokens.fail(f"{expression} is not a real number", token)
        return value

    def _whole_type(self, token: Token) -> TensorType:
        """The type that is one token."""
        head, _, place = token.text.partition("@")
        short, _, inside = head.rstrip("]").partition("[")
        lengths = inside.split(",") if inside else []
        if max(map(len, lengths), default=0) > MAX_DIGITS:
            self.tokens.fail("number too long", token)
        if short not in _DTYPES or not all(lengths):
            self.tokens.fail(f"expected a type, found {token}", token)
        name, _, index = place.partition(":")
        device = Device(name, int(index[:MAX_DIGITS]) if index else None) if place else CPU
        return self._within_bounds(TensorType(tuple(map(int, lengths)), _DTYPES[short], device), token)

    def _within_bounds(self, made: TensorType, token: Token) -> TensorType:
        if made.ndim > MAX_RANK or max(made.shape, default=0) > MAX_BYTES or made.nbytes > MAX_BYTES:
            self.tokens.fail("this type is larger than any memory", token)
        return made

    def device(self) -> Device:
        """A device, such as `@cpu` or `@cuda:0`."""
        self.tokens.expect("@")
        name = self.tokens.take("word", "a device").text
        return Device(name, self.integer("a device index") if self.tokens.accept(":") else None)

    def _tuple(self) -> tuple[Any, ...]:
        tokens = self.tokens
        tokens.expect("(")
        items = []
        while not tokens.at(")"):
            items.append(self.field())
            if not tokens.accept(","):
                if len(items) == 1:
                    tokens.fail(f"expected ',', found {tokens.current}")
                break
        tokens.expect(")")
        return tuple(items)

    def _complex(self) -> complex:
        tokens = self.tokens
        tokens.expect("complex")
        tokens.expect("(")
        real = self._real()
        tokens.expect(",")
        imag = self._real()
        tokens.expect(")")
        return complex(real, imag)

    def _real(self) -> float:
        if self.tokens.accept("nan"):
            return float("nan")
        token = self.tokens.current
        try:
            return float(self.number())
        except OverflowError:
            self.tokens.fail("number too large", token)

    def _array(self) -> Literal:
        tokens = self.tokens
        start = tokens.expect("array")
        tokens.expect("(")
        type = self.type()
        tokens.expect(",")
        if tokens.current.kind == "string":
            data = self._bytes(type)
        else:
            data = self._elements(type)
        tokens.expect(")")
        if type.device != CPU:
            tokens.fail("an array literal has no device", start)
        return Literal(np.frombuffer(data, type.dtype.np).reshape(type.shape))

    def _bytes(self, type: TensorType) -> bytes:
        token = self.tokens.current
        text = self.tokens.string("base64 data")
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            self.tokens.fail("malformed base64", token)
        if len(data) != type.nbytes:
            self.tokens.fail(f"{type} needs {type.nbytes} bytes, not {len(data)}", token)
        return np.frombuffer(data, type.dtype.np.newbyteorder("<")).astype(type.dtype.np).tobytes()

    def _elements(self, type: TensorType) -> bytes:
        tokens = self.tokens
        start = tokens.expect("[")
        items = []
        while not tokens.at("]"):
            items.append(self._element(type.dtype))
            if not tokens.accept(","):
                break
        tokens.expect("]")
        if len(items) != type.numel:
            tokens.fail(f"{type} needs {type.numel} elements, not {len(items)}", start)
        return b"".join(items)

    def _element(self, dtype: DType) -> bytes:
        token = self.tokens.current
        value: Any = None
        if token.kind == "word" and token.text in ("true", "false"):
            value = self._field() if dtype.kind == "bool" else None
        elif token.kind == "word" and token.text == "complex":
            value = self._complex() if dtype.is_complex else None
        elif dtype.kind == "int":
            value = self.number()
            value = value if isinstance(value, int) else None
        elif dtype.is_floating_point:
            value = self._real()
        try:
            with np.errstate(all="ignore"):
                return np.asarray(value, dtype.np).tobytes() if value is not None else self._refuse(dtype)
        except OverflowError:
            self.tokens.fail(f"{token} does not fit {dtype.name}", token)

    def _refuse(self, dtype: DType) -> NoReturn:
        self.tokens.fail(f"expected an element of type {dtype.name}, found {self.tokens.current}")

    def _dtype(self) -> DType:
        return _DTYPES[self.tokens.advance().text]


_WORDS: Final[dict[str, Any]] = {"none": None, "true": True, "false": False, "nan": float("nan")}
_FORMS: Final[dict[str, Callable[[AttributeReader], Any]]] = {
    **dict.fromkeys(_DTYPES, AttributeReader._dtype),
    "complex": AttributeReader._complex,
    "array": AttributeReader._array,
    "graph": lambda reader: reader._read_graph(),
}
