"""Nested containers of arguments and results, described without any class of the user's.

    tree ::= Leaf | Fixed | Size | Container of trees

Tuples, lists and dicts come back as themselves; named tuples and dataclasses as `Record`s, tuples whose items have
names too.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError
from jitgrad.ir.symbols import Expression, as_expression
from jitgrad.ir.types import Device

from ..errors import located
from ..tensor import Tensor

CONSTANTS = (type(None), bool, int, float, complex, str, DType, Device)


@dataclass(frozen=True)
class Leaf:
    """Tensor number `index`: a graph input for arguments, a graph output for results."""

    index: int


@dataclass(frozen=True)
class Fixed:
    """A Python value that was there at export."""

    value: Any


@dataclass(frozen=True)
class Size:
    """A Python integer or float that depends on the sizes."""

    expression: Expression


@dataclass(frozen=True)
class Container:
    """`kind` is tuple, list, dict, ordered or record. Dicts and records have `keys`, a record its name as `title`."""

    kind: str
    items: tuple[Tree, ...]
    keys: tuple[Any, ...] = ()
    title: str = ""


Tree: TypeAlias = "Leaf | Fixed | Size | Container"


class Record(tuple[Any, ...]):
    """A tuple with names for its items: what a named tuple or a dataclass of the user's comes back as.

    >>> r = Record.of("Scores", ("mean", "best"), (1, 2))
    >>> r.best, r
    (2, Scores(mean=1, best=2))
    """

    _fields: tuple[str, ...] = ()

    @staticmethod
    def of(title: str, names: Sequence[str], items: Sequence[Any]) -> Record:
        """A record of a type made for these names."""
        members = {n: property(itemgetter(i)) for i, n in enumerate(names)}
        return type(title or "Record", (Record,), {**members, "_fields": tuple(names)})(items)

    def __repr__(self) -> str:
        inner = ", ".join(f"{n}={x!r}" for n, x in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({inner})"


def is_field_name(key: Any) -> bool:
    """Whether an item of a record may have this name: those with two underscores mean something to Python."""
    return isinstance(key, str) and key.isidentifier() and not key.startswith("__")


def describe(x: Any, leaf: Callable[[Tensor], Leaf], where: str) -> Tree:
    """The tree of `x`, whose tensors `leaf` numbers; `where` names it in errors."""
    if isinstance(x, Tensor):
        return leaf(x)
    kind = _kind(x)
    if kind is not None:
        keys, items = _parts(x, kind)
        title = type(x).__name__ if kind == "record" else ""
        if kind == "record" and not all(map(is_field_name, keys)):
            raise located(ArgumentError(f"export: {where} has items that can't be named in a program: {list(keys)}"))
        return Container(kind, tuple([describe(v, leaf, f"{where}{p}") for p, v in items]), keys, title)
    expression = as_expression(x) if isinstance(x, (int, float)) else None
    if expression is not None and expression.fn != "number":
        return Size(expression)
    if isinstance(x, CONSTANTS):
        return Fixed(x)
    raise located(
        ArgumentTypeError(
            f"export: {where} is a {type(x).__name__}; tensors, numbers, strings, None and containers of them can be "
            "exported"
        )
    )


def _kind(x: Any) -> str | None:
    if type(x) in (tuple, list):
        return type(x).__name__
    if isinstance(x, OrderedDict):
        return "ordered"
    if isinstance(x, dict):
        return "dict"
    is_dataclass = dataclasses.is_dataclass(x) and not isinstance(x, type)
    if (isinstance(x, tuple) and hasattr(x, "_fields")) or (is_dataclass and not isinstance(x, (DType, Device))):
        return "record"
    return "tuple" if isinstance(x, tuple) else None


def _parts(x: Any, kind: str) -> tuple[tuple[Any, ...], list[tuple[str, Any]]]:
    """Keys, and items each with how it is reached."""
    if kind in ("tuple", "list"):
        return (), [(f"[{i}]", v) for i, v in enumerate(x)]
    if kind == "record":
        names = x._fields if isinstance(x, tuple) else tuple(f.name for f in dataclasses.fields(x) if f.init)
        return tuple(names), [(f".{n}", getattr(x, n)) for n in names]
    return tuple(x), [(f"[{k!r}]", v) for k, v in x.items()]


def leaves(tree: Tree) -> Iterator[Leaf]:
    """The leaves, in order."""
    if isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, Container):
        for item in tree.items:
            yield from leaves(item)


def renumbered(tree: Tree, numbers: Mapping[int, int]) -> Tree:
    """The tree with other numbers for its leaves."""
    if isinstance(tree, Leaf):
        return Leaf(numbers[tree.index])
    if not isinstance(tree, Container):
        return tree
    return Container(tree.kind, tuple([renumbered(x, numbers) for x in tree.items]), tree.keys, tree.title)


def build(tree: Tree, tensors: Mapping[int, Any], sizes: Mapping[str, int]) -> Any:
    """The object that `tree` describes, with these tensors as leaves."""
    if isinstance(tree, Leaf):
        return tensors[tree.index]
    if isinstance(tree, Fixed):
        return tree.value
    if isinstance(tree, Size):
        return tree.expression.at(sizes)
    items = [build(x, tensors, sizes) for x in tree.items]
    if tree.kind == "record":
        return Record.of(tree.title, tree.keys, items)
    if tree.kind in ("dict", "ordered"):
        return (OrderedDict if tree.kind == "ordered" else dict)(zip(tree.keys, items, strict=True))
    return tuple(items) if tree.kind == "tuple" else items


def match(tree: Tree, x: Any, where: str, found: dict[int, tuple[str, Tensor]]) -> None:
    """Put the tensors of `x`, which must have the shape of `tree`, into `found` by number, with their names."""
    if isinstance(tree, Leaf):
        if not isinstance(x, Tensor):
            raise located(ArgumentTypeError(f"{where} must be a Tensor, not {type(x).__name__}"))
        found[tree.index] = (where, x)
    elif isinstance(tree, Fixed):
        if type(x) is not type(tree.value) or not (x == tree.value or (x != x and tree.value != tree.value)):
            raise located(ArgumentError(f"{where} was {tree.value!r} when the program was exported; it can't be {x!r}"))
    elif isinstance(tree, Size):
        raise located(ArgumentError(f"{where} is a size"))
    else:
        for item, (place, value) in zip(tree.items, _matching(tree, x, where), strict=True):
            match(item, value, f"{where}{place}", found)


def _matching(tree: Container, x: Any, where: str) -> list[tuple[str, Any]]:
    kind = _kind(x)
    alike = {"dict": ("dict", "ordered"), "ordered": ("dict", "ordered"), "record": ("record", "tuple")}
    if kind not in alike.get(tree.kind, (tree.kind,)):
        raise located(ArgumentTypeError(f"{where} must be a {tree.title or tree.kind}, not {type(x).__name__}"))
    keys, items = _parts(x, str(kind))
    if tree.kind in ("dict", "ordered") and set(keys) == set(tree.keys):
        return [(f"[{k!r}]", x[k]) for k in tree.keys]
    if len(items) != len(tree.items) or (keys and keys != tree.keys):
        have, want = (list(keys), list(tree.keys)) if tree.keys else (len(items), len(tree.items))
        raise located(ArgumentError(f"{where} must have the items {want}, not {have}"))
    return items


def show(tree: Tree, leaf: Callable[[Leaf], str]) -> str:
    """The tree in one line, for people."""
    if isinstance(tree, Leaf):
        return leaf(tree)
    if isinstance(tree, Fixed):
        return repr(tree.value)
    if isinstance(tree, Size):
        return str(tree.expression)
    items = [show(x, leaf) for x in tree.items]
    if tree.kind == "record":
        return f"{tree.title}({', '.join(f'{k}={x}' for k, x in zip(tree.keys, items, strict=True))})"
    if tree.kind in ("dict", "ordered"):
        return "{" + ", ".join(f"{k!r}: {x}" for k, x in zip(tree.keys, items, strict=True)) + "}"
    comma = "," if tree.kind == "tuple" and len(items) == 1 else ""
    return f"({', '.join(items)}{comma})" if tree.kind == "tuple" else f"[{', '.join(items)}]"


def same_tree(symbolic: Tree, plain: Tree, sizes: Mapping[str, int]) -> bool:
    """Whether `symbolic` at these sizes is `plain`."""
    if isinstance(symbolic, Size):
        wanted = symbolic.expression.at(sizes)
        return wanted == (plain.expression.at(sizes) if isinstance(plain, Size) else getattr(plain, "value", None))
    if not isinstance(symbolic, Container) or not isinstance(plain, Container):
        return symbolic == plain
    alike = (symbolic.kind, symbolic.keys, len(symbolic.items)) == (plain.kind, plain.keys, len(plain.items))
    return alike and all(same_tree(a, b, sizes) for a, b in zip(symbolic.items, plain.items, strict=True))
