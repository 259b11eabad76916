"""`IRBuilder`: appends instructions to a block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from .module import NONTEMPORAL, Block, Function, Module
from .types import FunctionType, IntType, PointerType, StructType, Type, Value, VectorType, VoidType
from .values import Alloca, Phi, Switch

_I1: Final = IntType(1)
_I32: Final = IntType(32)
_POINTER: Final = PointerType()
_VOID: Final = VoidType()
_NOTHING: Final = Value(_VOID, "")
_COMPARISONS: Final = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


@functools.cache
def _truth(type: Type) -> Type:
    """What a comparison of values of a type gives."""
    return VectorType(_I1, type.count) if isinstance(type, VectorType) else _I1


def _binary(name: str) -> Callable[[IRBuilder, Value, Value], Value]:
    def build(self: IRBuilder, x: Value, y: Value) -> Value:
        return self._value(x.type, f"{name} {x.type.text} {x.ref}, {y.ref}")

    return build


def _arithmetic(name: str) -> Callable[..., Value]:
    def build(self: IRBuilder, x: Value, y: Value, flags: Sequence[str] = ()) -> Value:
        words = " ".join([name, *flags]) if flags else name
        return self._value(x.type, f"{words} {x.type.text} {x.ref}, {y.ref}")

    return build


def _cast(name: str) -> Callable[[IRBuilder, Value, Type], Value]:
    def build(self: IRBuilder, value: Value, type: Type) -> Value:
        if value.type is type:
            return value
        return self._value(type, f"{name} {value.type.text} {value.ref} to {type.text}")

    return build


class IRBuilder:
    """Instructions are appended to `block`, or in front of its last one."""

    __slots__ = ("_at_end", "block", "function")

    def __init__(self, block: Block) -> None:
        self.function: Function = block.function
        self.position_at_end(block)

    # where

    @property
    def module(self) -> Module:
        """That of the function."""
        return self.function.module

    def position_at_end(self, block: Block) -> None:
        """Go on at the end of a block."""
        self.block = block
        self._at_end = True

    def position_before_end(self, block: Block) -> None:
        """Go on in front of the last instruction of a block."""
        self.block = block
        self._at_end = False

    def append_basic_block(self, name: str) -> Block:
        """A new block of the function."""
        return self.function.append_basic_block(name)

    def _insert(self, line: str | Phi | Alloca | Switch) -> None:
        lines = self.block.lines
        if self._at_end:
            lines.append(line)
        else:
            lines.insert(len(lines) - 1, line)

    def _name(self) -> str:
        function = self.function
        function.count = count = function.count + 1
        return f"%.{count}"

    def _value(self, type: Type, text: str) -> Value:
        """The result of the instruction of this text."""
        function = self.function
        function.count = count = function.count + 1
        ref = f"%.{count}"
        if self._at_end:
            self.block.lines.append(f"  {ref} = {text}")
        else:
            self._insert(f"  {ref} = {text}")
        return Value(type, ref)

    def _end(self, line: str | Switch) -> None:
        self.block.lines.append(line)
        self.block.is_terminated = True

    # numbers

    add = _binary("add")
    sub = _binary("sub")
    mul = _binary("mul")
    sdiv = _binary("sdiv")
    udiv = _binary("udiv")
    srem = _binary("srem")
    urem = _binary("urem")
    and_ = _binary("and")
    or_ = _binary("or")
    xor = _binary("xor")
    shl = _binary("shl")
    lshr = _binary("lshr")
    ashr = _binary("ashr")
    fadd = _arithmetic("fadd")
    fsub = _arithmetic("fsub")
    fmul = _arithmetic("fmul")
    fdiv = _arithmetic("fdiv")
    frem = _arithmetic("frem")
    zext = _cast("zext")
    sext = _cast("sext")
    trunc = _cast("trunc")
    fpext = _cast("fpext")
    fptrunc = _cast("fptrunc")
    fptosi = _cast("fptosi")
    fptoui = _cast("fptoui")
    sitofp = _cast("sitofp")
    uitofp = _cast("uitofp")
    bitcast = _cast("bitcast")
    inttoptr = _cast("inttoptr")
    ptrtoint = _cast("ptrtoint")

    def freeze(self, x: Value) -> Value:
        """`x`, and nothing that follows is made one with what made it."""
        return self._value(x.type, f"freeze {x.type.text} {x.ref}")

    def fneg(self, x: Value) -> Value:
        """-x."""
        return self._value(x.type, f"fneg {x.type.text} {x.ref}")

    def icmp_signed(self, sign: str, x: Value, y: Value) -> Value:
        """A comparison of signed integers."""
        word = _COMPARISONS[sign]
        word = word if word in ("eq", "ne") else f"s{word}"
        return self._value(_truth(x.type), f"icmp {word} {x.type.text} {x.ref}, {y.ref}")

    def icmp_unsigned(self, sign: str, x: Value, y: Value) -> Value:
        """A comparison of unsigned integers."""
        word = _COMPARISONS[sign]
        word = word if word in ("eq", "ne") else f"u{word}"
        return self._value(_truth(x.type), f"icmp {word} {x.type.text} {x.ref}, {y.ref}")

    def fcmp_ordered(self, sign: str, x: Value, y: Value) -> Value:
        """A comparison that is false where one of them is NaN."""
        return self._value(_truth(x.type), f"fcmp o{_COMPARISONS[sign]} {x.type.text} {x.ref}, {y.ref}")

    def fcmp_unordered(self, sign: str, x: Value, y: Value) -> Value:
        """A comparison that is true where one of them is NaN; "uno" asks for that alone."""
        word = "uno" if sign == "uno" else f"u{_COMPARISONS[sign]}"
        return self._value(_truth(x.type), f"fcmp {word} {x.type.text} {x.ref}, {y.ref}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """`x` where the condition holds, else `y`."""
        kind = x.type.text
        return self._value(x.type, f"select {condition.type.text} {condition.ref}, {kind} {x.ref}, {kind} {y.ref}")

    # vectors and structs

    def shuffle_vector(self, x: Value, y: Value, order: Value) -> Value:
        """Lanes of `x` and `y` together, in another order."""
        type = VectorType(x.type.element, order.type.count)
        kind = x.type.text
        return self._value(type, f"shufflevector {kind} {x.ref}, {kind} {y.ref}, {order.type.text} {order.ref}")

    def insert_element(self, vector: Value, x: Value, lane: Value) -> Value:
        """The vector with `x` in one lane."""
        type = vector.type
        text = f"insertelement {type.text} {vector.ref}, {x.type.text} {x.ref}, {lane.type.text} {lane.ref}"
        return self._value(type, text)

    def extract_element(self, vector: Value, lane: Value) -> Value:
        """One lane."""
        type = vector.type
        return self._value(type.element, f"extractelement {type.text} {vector.ref}, {lane.type.text} {lane.ref}")

    def extract_value(self, struct: Value, index: int) -> Value:
        """One field."""
        assert isinstance(struct.type, StructType)
        return self._value(struct.type.fields[index], f"extractvalue {struct.type.text} {struct.ref}, {index}")

    # memory

    def alloca(self, type: Type, count: Value | int | None = None) -> Alloca:
        """Memory on the stack."""
        made = Alloca(self._name(), type, _I32(count) if isinstance(count, int) else count)
        self._insert(made)
        return made

    def load(self, address: Value, typ: Type, align: int | None = None) -> Value:
        """What is at an address."""
        tail = "" if align is None else f", align {align}"
        return self._value(typ, f"load {typ.text}, ptr {address.ref}{tail}")

    def store(self, value: Value, address: Value, align: int | None = None, past_caches: bool = False) -> None:
        """Put a value at an address; `past_caches` says that it is not read soon."""
        tail = "" if align is None else f", align {align}"
        if past_caches:
            tail += f", !nontemporal {NONTEMPORAL}"
        self._insert(f"  store {value.type.text} {value.ref}, ptr {address.ref}{tail}")

    def gep(self, base: Value, indices: Sequence[Value], source_etype: Type) -> Value:
        """The address of an element, or of several where an index is a vector."""
        places = "".join([f", {i.type.text} {i.ref}" for i in indices])
        vector = next((i.type for i in indices if isinstance(i.type, VectorType)), None)
        type = _POINTER if vector is None else VectorType(_POINTER, vector.count)
        return self._value(type, f"getelementptr {source_etype.text}, ptr {base.ref}{places}")

    def load_atomic(self, address: Value, ordering: str, align: int, typ: Type) -> Value:
        """What is at an address, whoever writes there."""
        return self._value(typ, f"load atomic {typ.text}, ptr {address.ref} {ordering}, align {align}")

    def atomic_rmw(self, operation: str, address: Value, value: Value, ordering: str) -> Value:
        """Change what is at an address; what was there."""
        text = f"atomicrmw {operation} ptr {address.ref}, {value.type.text} {value.ref} {ordering}"
        return self._value(value.type, text)

    def cmpxchg(self, address: Value, expected: Value, value: Value, ordering: str, failordering: str) -> Value:
        """Put a value at an address if what is there is as expected; what was there, and whether it was done."""
        kind = value.type.text
        text = f"cmpxchg ptr {address.ref}, {kind} {expected.ref}, {kind} {value.ref} {ordering} {failordering}"
        return self._value(StructType(value.type, _I1), text)

    def fence(self, ordering: str) -> None:
        """What was done to memory before is seen by others before what is done after."""
        self._insert(f"  fence {ordering}")

    # control

    def phi(self, type: Type) -> Phi:
        """What differs by where control came from; stands at the beginning of a block."""
        made = Phi(type, self._name())
        self._insert(made)
        return made

    def call(
        self, function: Value, args: Sequence[Value], attrs: Sequence[str] = (),
        function_type: FunctionType | None = None,
    ) -> Value:  # fmt: skip
        """The result of a function, or of a `function_type` at an address."""
        if function_type is None:
            assert isinstance(function, Function)
            function_type = function.function_type
        result = function_type.return_type
        given = ", ".join([f"{a.type.text} {a.ref}" for a in args])
        text = f"call {result.text} {function.ref}({given}){''.join([f' {a}' for a in attrs])}"
        if result is not _VOID:
            return self._value(result, text)
        self._insert(f"  {text}")
        return _NOTHING

    def branch(self, block: Block) -> None:
        """Go on in a block."""
        self._end(f"  br label %{block.name}")

    def cbranch(self, condition: Value, one: Block, other: Block) -> None:
        """Go on in one block where the condition holds, else in the other."""
        self._end(f"  br i1 {condition.ref}, label %{one.name}, label %{other.name}")

    def switch(self, value: Value, default: Block) -> Switch:
        """Go on in the block of a number, to be told."""
        made = Switch(value, default)
        self._end(made)
        return made

    def ret(self, value: Value) -> None:
        """Return a value."""
        self._end(f"  ret {value.type.text} {value.ref}")

    def ret_void(self) -> None:
        """Return."""
        self._end("  ret void")

    def unreachable(self) -> None:
        """Control never comes here."""
        self._end("  unreachable")

    @contextmanager
    def if_then(self, condition: Value) -> Iterator[None]:
        """What is built inside runs where the condition holds."""
        inside, after = (self.append_basic_block(n) for n in ("then", "endif"))
        self.cbranch(condition, inside, after)
        with self._branch_of(inside, after):
            yield
        self.position_at_end(after)

    @contextmanager
    def if_else(
        self, condition: Value
    ) -> Iterator[tuple[AbstractContextManager[None], AbstractContextManager[None]]]:  # fmt: skip
        """Two contexts: what is built in the first runs where the condition holds, what is in the second elsewhere."""
        one, other, after = (self.append_basic_block(n) for n in ("then", "else", "endif"))
        self.cbranch(condition, one, other)
        yield self._branch_of(one, after), self._branch_of(other, after)
        self.position_at_end(after)

    @contextmanager
    def _branch_of(self, block: Block, after: Block) -> Iterator[None]:
        self.position_at_end(block)
        yield
        if not self.block.is_terminated:
            self.branch(after)
