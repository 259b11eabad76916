"""From the arguments of a call to the inputs of the graph, and the lengths of the dimensions they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from jitgrad.ir.symbols import SymbolicInt
from jitgrad.ir.types import TensorType

from ..errors import located
from ..tensor import Tensor, wrap
from .spec import Argument, Spec
from .trees import leaves, match


@dataclass
class Bound:
    """The tensors of a call by graph input, and the lengths of the dimensions."""

    tensors: dict[int, Tensor] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


def bind(spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
    """The inputs that these arguments give, with types and sizes checked."""
    found: dict[int, tuple[str, Tensor]] = {}
    rest = dict(kwargs)
    for argument, value in _assign(spec, args, rest):
        match(argument.tree, value, f"{spec.name}: argument {argument.name!r}", found)
    bound = Bound()
    for n in spec.numbers:
        bound.tensors[n.input] = _number(spec, n.name, rest.pop(n.name, n.default), spec.graph.inputs[n.input].type)
    if rest:
        raise located(ArgumentTypeError(f"{spec.name}: unexpected argument {next(iter(rest))!r}; {spec.signature}"))
    _find_sizes(spec, found, bound.sizes)
    for index, (where, t) in found.items():
        _check_shape(where, t, spec.graph.inputs[index].type, bound.sizes)
        bound.tensors[index] = t
    return bound


def _assign(spec: Spec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Argument, Any]]:
    """Each argument with its value; takes them out of `kwargs`."""
    places = [a for a in spec.arguments if not a.keyword]
    if len(args) > len(places):
        raise located(
            ArgumentTypeError(
                f"{spec.name} takes {len(places)} arguments by position, not {len(args)}; {spec.signature}"
            )
        )
    found = list(zip(places, args, strict=False))
    for a in [*places[len(args) :], *[a for a in spec.arguments if a.keyword]]:
        if a.name in kwargs:
            found.append((a, kwargs.pop(a.name)))
        elif any(True for _ in leaves(a.tree)):  # constants may be left out
            raise located(ArgumentTypeError(f"{spec.name}: argument {a.name!r} is missing; {spec.signature}"))
    return found


def _number(spec: Spec, name: str, value: Any, type: TensorType) -> Tensor:
    if isinstance(value, Tensor):
        if value.shape:
            raise located(ShapeError(f"{spec.name}: number {name!r} must be 0-d, not {value.type_}"))
        value = value.item()  # type: ignore[attr-defined]
    if not isinstance(value, (bool, int, float)):
        raise located(ArgumentTypeError(f"{spec.name}: {name!r} must be a number, not {value.__class__.__name__}"))
    return wrap(np.asarray(value, type.dtype.np))


def _find_sizes(spec: Spec, found: Mapping[int, tuple[str, Tensor]], sizes: dict[str, int]) -> None:
    """Take lengths from the axes that are a dimension by themselves."""
    origin: dict[str, str] = {}
    for index, (where, t) in found.items():
        type = spec.graph.inputs[index].type
        _check_kind(where, t, type)
        for axis, (n, actual) in enumerate(zip(type.shape, t.shape, strict=True)):
            if not isinstance(n, SymbolicInt) or n.expression.fn != "name":
                continue
            name, here = str(n.expression.args[0]), f"dim {axis} of {where}"
            if sizes.setdefault(name, actual) != actual:
                raise located(
                    ShapeError(
                        f"dimension {name!r} has one length: {sizes[name]} in {origin[name]}, {actual} in {here}"
                    )
                )
            origin.setdefault(name, here)
    check_sizes(spec, sizes, origin)


def _check_kind(where: str, t: Tensor, type: TensorType) -> None:
    if t.dtype is not type.dtype:
        raise located(DTypeError(f"{where} must be {type}, not {t.type_}: another element type"))
    if t.ndim != type.ndim:
        raise located(ShapeError(f"{where} must be {type}, not {t.type_}: {type.ndim} axes, not {t.ndim}"))


def _check_shape(where: str, t: Tensor, type: TensorType, sizes: Mapping[str, int]) -> None:
    for axis, (n, actual) in enumerate(zip(type.shape, t.shape, strict=True)):
        want = n.expression.at(sizes) if isinstance(n, SymbolicInt) else n
        if want != actual:
            raise located(ShapeError(f"{where} must be {type}, not {t.type_}: dim {axis} must be {want}"))


def check_sizes(spec: Spec, sizes: Mapping[str, int], origin: Mapping[str, str]) -> None:
    """Bounds of the dimensions, and constraints."""
    for name, n in sizes.items():
        dim = spec.dims[name]
        if not dim.allows(n):
            where = f"{origin[name]} is {n}" if name in origin else f"{name} = {n}"
            raise located(ArgumentError(f"{where}: {spec.name} needs {dim}"))
    for c in spec.constraints:
        if not c.holds(sizes):
            at = f", taken for granted at {c.location}" if c.location else ""
            shown = ", ".join(f"{k} = {sizes[k]}" for k in dict.fromkeys([*c.left.names(), *c.right.names()]))
            raise located(ArgumentError(f"{spec.name} holds only for {c}, and {shown}{at}"))
