"""The text form of a graph. It parses back to an equal graph, and its canonical form is the key of caches.

    graph mlp(%x: f32[32,64], %w: f32[64,10]) -> (f32[32,10]) {
      %2 = matmul(%x, %w) : f32[32,10]                    at "model.py:41 in MLP.forward" in "MLP"
      %3, %4 = topk[k=3, axis=1](%2) : f32[32,3], i64[32,3]
      return %2
    }

Values are numbered by order of definition, so the text depends on nothing but the graph. Fields of an op are
printed by their Python type; what is printed reads back to exactly the same value, floats included. `#`
starts a comment. Symbolic sizes (`ir.symbols`) print as their expressions: `f32[batch,4*width]` in types, and
in braces, `shape=({4*batch}, 16)`, in fields.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .dtypes import FROM_NUMPY, DType
from .errors import InternalError
from .graph import Graph, Node, Value
from .op import Op
from .ops.creation import Literal
from .symbols import SymbolicFloat, SymbolicInt
from .types import Device, TensorType

INLINE_ELEMENTS: Final = 16  # larger array literals are printed as base64 of their bytes
_LOCATION_COLUMN: Final = 52
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


def to_text(graph: Graph, name: str = "", *, locations: bool = True) -> str:
    """The text of `graph`, as function `name`. `locations` tells whether to print source lines and module
    scopes.

    >>> from jitgrad.ir import dtypes
    >>> from jitgrad.ir.builder import Builder
    >>> from jitgrad.ir.types import TensorType
    >>> b = Builder()
    >>> x = b.input(TensorType((2,), dtypes.float32), "x")
    >>> print(to_text(b.build([x]), "same"))
    graph same(%x: f32[2]) -> (f32[2]) {
      return %x
    }
    """
    return "\n".join(Printer(locations=locations).print(graph, name))


def canonical_text(graph: Graph) -> str:
    """The content of `graph` without names and locations: equal for equal graphs and for no others.

    Large literals are replaced by their SHA-256, so this text is a key and can't be parsed.
    """
    return "\n".join(Printer(names=False, locations=False, digests=True).print(graph))


class Printer:
    """Prints one graph; afterwards `line_of` tells the line of each node, counted from 0.

    Copes with any graph, also one that breaks the rules: values defined nowhere print as `%?0`, `%?1`, ...
    """

    def __init__(self, *, names: bool = True, locations: bool = True, digests: bool = False) -> None:
        self.names = names
        self.locations = locations
        self.digests = digests
        self.line_of: dict[Node, int] = {}
        self._labels: dict[Value, str] = {}
        self._taken: dict[str, int] = {}
        self._ops: dict[Op, str] = {}
        self._free = 0

    def print(self, graph: Graph, name: str = "") -> list[str]:
        """The lines of `graph`."""
        for number, value in enumerate(graph.values()):
            self._labels.setdefault(value, self._new_label(value, number))
        inputs = ", ".join(f"{self.label(v)}: {v.type}" for v in graph.inputs)
        outputs = ", ".join(str(v.type) for v in graph.outputs)
        lines = [f"graph{name and ' ' + name}({inputs}) -> ({outputs}) {{"]
        for node in graph.nodes:
            self.line_of.setdefault(node, len(lines))
            lines += ("  " + self.node(node)).split("\n")
        results = ", ".join(map(self.label, graph.outputs))
        return [*lines, f"  return {results}".rstrip(), "}"]

    def label(self, value: Value) -> str:
        """`%name` or `%number` of a value of the graph being printed."""
        found = self._labels.get(value)
        if found is None:
            found = self._labels[value] = f"%?{self._free}"
            self._free += 1
        return found

    def node(self, node: Node) -> str:
        """The text of one node; sub-graphs among its fields make it several lines."""
        results = ", ".join(map(self.label, node.results))
        operands = ", ".join(map(self.label, node.operands))
        types = ", ".join(str(r.type) for r in node.results)
        text = f"{self.op(node.op)}({operands})"
        text = f"{results} = {text} : {types}" if results else text
        where = self._where(node) if self.locations else ""
        return f"{text:{_LOCATION_COLUMN}} {where}" if where else text

    def op(self, op: Op) -> str:
        """The op's name, with the fields that don't have their default value in brackets."""
        known = self._ops.get(op)
        if known is None:
            known = self._ops[op] = self._op(op)
        return known

    def _op(self, op: Op) -> str:
        shown = []
        for field in dataclasses.fields(op):  # type: ignore[arg-type]
            text = self.field(getattr(op, field.name))
            if field.default is dataclasses.MISSING or self.field(field.default) != text:
                shown.append(f"{field.name}={text}")
        return f"{op.name}[{', '.join(shown)}]" if shown else op.name

    def field(self, value: Any) -> str:
        """One field's value, exactly."""
        exact = _WRITERS.get(type(value))
        if exact is not None:
            return exact(self, value)
        for kind, write in _WRITERS.items():
            if isinstance(value, kind):
                return write(self, value)
        raise InternalError(f"a field of type {type(value).__name__} has no text form: {value!r}")

    def _new_label(self, value: Value, number: int) -> str:
        if not self.names or not value.name:
            return f"%{number}"
        name = value.name if _PLAIN_NAME.match(value.name) else json.dumps(value.name)
        count = self._taken[name] = self._taken.get(name, 0) + 1
        return f"%{name}" if count == 1 else f"%{name}~{count}"

    def _where(self, node: Node) -> str:
        at = f"at {json.dumps(str(node.location))}" if node.location is not None else ""
        scope = f"in {', '.join(map(json.dumps, node.scope))}" if node.scope else ""
        return f"{at} {scope}".strip()

    def _graph(self, graph: Graph) -> str:
        inner = Printer(names=self.names, locations=self.locations, digests=self.digests)
        return "\n  ".join(inner.print(graph))

    def array(self, array: np.ndarray[Any, Any]) -> str:
        """An array literal: its type, and its elements or base64 of its bytes."""
        type = TensorType(array.shape, FROM_NUMPY[array.dtype])
        if array.size > INLINE_ELEMENTS or not _is_plain(array):
            data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            if self.digests:
                return f"array({type}, sha256 {hashlib.sha256(data).hexdigest()})"
            return f"array({type}, {json.dumps(base64.b64encode(data).decode())})"
        return f"array({type}, [{', '.join(map(_element, array.reshape(-1)))}])"


def _float(value: float) -> str:
    return float.__repr__(value)  # a NumPy float64 is a float too, and has a repr of its own


def _complex(value: complex) -> str:
    return f"complex({_float(value.real)}, {_float(value.imag)})"


def _element(x: Any) -> str:
    """The shortest text of an array element that reads back to the same bits."""
    if x.dtype.kind == "b":
        return "true" if x else "false"
    if x.dtype.kind in "iu":
        return str(int(x))
    if x.dtype.kind == "c":
        return _complex(complex(x))
    short = str(x)
    return _float(float(short) if x.dtype.type(float(short)) == x else float(x))


def _is_plain(array: np.ndarray[Any, Any]) -> bool:
    """Whether all NaNs are the usual one, so that the word `nan` says all."""
    parts = array.reshape(-1)
    parts = np.concatenate([parts.real, parts.imag]) if array.dtype.kind == "c" else parts
    if array.dtype.kind in "biu":
        return True
    nans = parts[np.isnan(parts)]
    return bool(nans.tobytes() == np.full(nans.shape, np.nan, nans.dtype).tobytes())


def _tuple(printer: Printer, value: tuple[Any, ...]) -> str:
    inner = ", ".join(map(printer.field, value))
    return f"({inner},)" if len(value) == 1 else f"({inner})"


def _nested_op(printer: Printer, op: Op) -> str:
    text = printer.op(op)
    return text if text.endswith("]") else f"{text}[]"


# In order: a bool is an int to Python.
_WRITERS: Final[dict[type, Callable[[Printer, Any], str]]] = {
    type(None): lambda printer, value: "none",
    bool: lambda printer, value: "true" if value else "false",
    int: lambda printer, value: int.__repr__(value),
    float: lambda printer, value: _float(value),
    complex: lambda printer, value: _complex(value),
    str: lambda printer, value: json.dumps(value),
    DType: lambda printer, value: value.short,
    Device: lambda printer, value: f"@{value}",
    tuple: _tuple,
    Op: _nested_op,
    Graph: Printer._graph,
    Literal: lambda printer, value: printer.array(value.array),
    SymbolicInt: lambda printer, value: f"{{{value}}}",
    SymbolicFloat: lambda printer, value: f"{{{value}}}",
}
