"""Modules, functions and blocks."""

from __future__ import annotations

from typing import Final

from .types import FunctionType, PointerType, Value
from .values import Alloca, Phi, Switch

NONTEMPORAL: Final = "!0"
"""The note that a store goes past the caches, which stands at the end of each module."""


class Block:
    """Instructions in a row, the last of which says where to go on. `lines` are they, or what gives their text."""

    __slots__ = ("function", "is_terminated", "lines", "name")

    def __init__(self, function: Function, name: str) -> None:
        self.function = function
        self.name = name
        self.lines: list[str | Phi | Alloca | Switch] = []
        self.is_terminated = False


class Function(Value):
    """A function of a module: declared, and with blocks defined as well. `args` are its parameters."""

    __slots__ = ("align_stack", "args", "attributes", "blocks", "count", "function_type", "linkage", "module", "name")

    def __init__(self, module: Module, function_type: FunctionType, name: str) -> None:
        super().__init__(PointerType(), f'@"{name}"')
        self.module = module
        self.function_type = function_type
        self.name = name
        self.args = tuple([Value(t, f"%.{k}") for k, t in enumerate(function_type.args)])
        self.blocks: list[Block] = []
        self.count = len(self.args)  # of names that have been given
        self.linkage = ""
        self.attributes: set[str] = set()
        self.align_stack = 0
        module.globals[name] = self

    def append_basic_block(self, name: str) -> Block:
        """A new block at the end."""
        self.count += 1
        block = Block(self, f"{name}.{self.count}")
        self.blocks.append(block)
        return block

    @property
    def entry_basic_block(self) -> Block:
        """The first block."""
        return self.blocks[0]

    def __str__(self) -> str:
        kind = self.function_type
        result = kind.return_type.text
        if not self.blocks:
            return f"declare {result} {self.ref}({', '.join([a.text for a in kind.args])})\n"
        args = ", ".join([f"{a.type.text} {a.ref}" for a in self.args])
        words = [*sorted(self.attributes), *([f"alignstack({self.align_stack})"] if self.align_stack else [])]
        head = " ".join([w for w in ("define", self.linkage, result, f"{self.ref}({args})", *words) if w])
        lines = [head, "{"]
        for block in self.blocks:
            lines.append(f"{block.name}:")
            lines += map(str, block.lines)
        return "\n".join([*lines, "}\n"])


class Module:
    """Functions that are compiled together, by name in `globals`."""

    __slots__ = ("data_layout", "globals", "name", "triple")

    def __init__(self, name: str) -> None:
        self.name = name
        self.triple = ""
        self.data_layout = ""
        self.globals: dict[str, Function] = {}

    def declared(self, name: str, function_type: FunctionType) -> Function:
        """The function of that name, declared if it is not yet."""
        found = self.globals.get(name)
        return Function(self, function_type, name) if found is None else found

    def __str__(self) -> str:
        head = [f'; ModuleID = "{self.name}"', f'target triple = "{self.triple}"']
        head.append(f'target datalayout = "{self.data_layout}"\n')
        return "\n".join([*head, *map(str, self.globals.values()), f"{NONTEMPORAL} = !{{i32 1}}\n"])
