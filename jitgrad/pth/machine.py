"""A machine for pickles that builds data and nothing else.

The standard library splits the stream into operations; this says what they do. A name goes through a `Lookup`, which
gives a value, or a `Constructor`, the only thing that can be called. Attributes are set by the given `build` alone.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from jitgrad.ir.errors import ShapeError

from .errors import PthError

Lookup = Callable[[str, str], Any]
_MARK = object()
_NEWEST_PROTOCOL = 5

# What reading a damaged stream may raise: from decoding, from the stack, from putting values where they
# don't belong; a warning where warnings are errors.
DAMAGE = (
    ValueError, TypeError, LookupError, ArithmeticError, EOFError, AttributeError, MemoryError, RecursionError,
    ShapeError, Warning,
)  # fmt: skip


class Constructor(NamedTuple):
    """What a name that may be called stands for."""

    name: str
    make: Callable[..., Any]


class Machine:
    """Runs one pickle. `persistent` gives the object for a persistent identifier, `build(x, state)` completes one."""

    def __init__(self, lookup: Lookup, persistent: Callable[[Any], Any], build: Callable[[Any, Any], None]) -> None:
        self.lookup = lookup
        self.persistent = persistent
        self.build = build
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, file: BinaryIO) -> Any:
        """The object that the pickle at the position of `file` describes; the position is behind it then."""
        try:
            for operation, argument, _ in pickletools.genops(file):
                step = _STEPS.get(operation.name)
                if step is None:
                    raise PthError(f"load: the pickle in the file uses {operation.name}, which is refused")
                step(self, argument)
            (result,) = self.stack
        except PthError:
            raise
        except DAMAGE as error:
            raise PthError(f"load: the pickle in the file is damaged: {error}") from error
        if result is _MARK or isinstance(result, Constructor):
            raise PthError("load: the pickle in the file is damaged: it holds no data")
        return result

    # the stack --------------------------------------------------------------------------------------------

    def push(self, x: Any) -> None:
        """Put `x` on top."""
        self.stack.append(x)

    def pop(self) -> Any:
        """The value on top, taken off."""
        x = self.stack.pop()
        if x is _MARK:
            raise ValueError("a value is missing")
        return x

    def since_mark(self) -> list[Any]:
        """The values above the last mark, taken off with it."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                values = self.stack[i + 1 :]
                del self.stack[i:]
                return values
        raise ValueError("a mark is missing")

    def top(self, *kinds: type) -> Any:
        """The value on top, which must be of one of these types."""
        x = self.stack[-1]
        if not isinstance(x, kinds):
            raise ValueError(f"{type(x).__name__} where {kinds[0].__name__} belongs")
        return x

    # operations -------------------------------------------------------------------------------------------

    def call(self) -> None:
        """Replace a constructor and a tuple of arguments by what it makes of them."""
        arguments, constructor = self.pop(), self.pop()
        if not isinstance(constructor, Constructor) or not isinstance(arguments, tuple):
            raise PthError(f"load: the pickle in the file calls a {type(constructor).__name__}, which is refused")
        self.push(constructor.make(*arguments))

    def complete(self) -> None:
        """Give the value on top its state."""
        state = self.pop()
        self.build(self.stack[-1], state)

    def append(self, values: list[Any]) -> None:
        """Append to the list on top."""
        self.top(list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Put keys and values into the dict on top."""
        if len(values) % 2:
            raise ValueError("a value is missing")
        target = self.top(dict)
        for i in range(0, len(values), 2):
            target[values[i]] = values[i + 1]

    def new_dict(self, values: list[Any]) -> None:
        """Put a dict of these keys and values on top."""
        self.push({})
        self.set_items(values)

    def add(self, values: list[Any]) -> None:
        """Add to the set on top."""
        self.top(set).update(values)

    def memorise(self, index: int) -> None:
        """Remember the value on top."""
        self.memo[index] = self.stack[-1]

    def two_names(self) -> None:
        """Replace the names of a Python module and of a thing in it by what they stand for here."""
        name, module = self.pop(), self.pop()
        self.push(self.lookup(str(module), str(name)))

    def protocol(self, number: int) -> None:
        """Refuse what is newer than this machine."""
        if number > _NEWEST_PROTOCOL:
            raise ValueError(f"protocol {number}")


def _take(m: Machine, count: int) -> list[Any]:
    return [m.pop() for _ in range(count)][::-1]


Step = Callable[[Machine, Any], Any]
_PUSHES_ITS_ARGUMENT = (
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8", "BYTEARRAY8",
)  # fmt: skip
_STEPS: dict[str, Step] = {
    **dict.fromkeys(_PUSHES_ITS_ARGUMENT, Machine.push),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, i: m.push(m.memo[int(i)])),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda m, i: m.memorise(int(i))),
    "MEMOIZE": lambda m, _: m.memorise(len(m.memo)),
    "PROTO": Machine.protocol,
    "FRAME": lambda m, _: None,
    "STOP": lambda m, _: None,
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "MARK": lambda m, _: m.push(_MARK),
    "POP": lambda m, _: m.stack.pop(),
    "POP_MARK": lambda m, _: m.since_mark(),
    "DUP": lambda m, _: m.push(m.stack[-1]),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "TUPLE1": lambda m, _: m.push(tuple(_take(m, 1))),
    "TUPLE2": lambda m, _: m.push(tuple(_take(m, 2))),
    "TUPLE3": lambda m, _: m.push(tuple(_take(m, 3))),
    "TUPLE": lambda m, _: m.push(tuple(m.since_mark())),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "LIST": lambda m, _: m.push(m.since_mark()),
    "APPEND": lambda m, _: m.append(_take(m, 1)),
    "APPENDS": lambda m, _: m.append(m.since_mark()),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "DICT": lambda m, _: m.new_dict(m.since_mark()),
    "SETITEM": lambda m, _: m.set_items(_take(m, 2)),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "EMPTY_SET": lambda m, _: m.push(set()),
    "ADDITEMS": lambda m, _: m.add(m.since_mark()),
    "FROZENSET": lambda m, _: m.push(frozenset(m.since_mark())),
    "GLOBAL": lambda m, names: m.push(m.lookup(*names.split(" ", 1))),
    "STACK_GLOBAL": lambda m, _: m.two_names(),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.complete(),
    "BINPERSID": lambda m, _: m.push(m.persistent(m.pop())),
}
