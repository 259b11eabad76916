"""The example call of an export: arguments, their names, and which of their axes vary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError
from jitgrad.ir.symbols import SymbolicInt, symbol
from jitgrad.ir.types import TensorType

from ..errors import located
from ..tensor import Tensor
from .dims import Dim
from .spec import Argument
from .trees import Container, Leaf, Tree, build, describe


class Example:
    """What `f` was called with: `arguments`, the tensors among them, `dims`, and `fixed`, those with given bounds."""

    def __init__(self, f: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], dynamic: Mapping[str, Any]) -> None:
        self.f = f
        self.args: tuple[Any, ...] = (args,) if isinstance(args, Tensor) else tuple(args)
        self.kwargs = dict(kwargs)
        self.tensors: list[Tensor] = []
        self.names: list[str] = []
        self.arguments = self._describe()
        self.dims: dict[str, Dim] = {}
        self.fixed: set[str] = set()
        self._axes: dict[int, dict[int, str]] = {}
        if not isinstance(dynamic, Mapping):
            shape = '{"x": {0: "batch"}}'
            message = f"export: dynamic must be a dict by argument name, as {shape}, not {type(dynamic).__name__}"
            raise located(ArgumentTypeError(message))
        for name, spec in dynamic.items():
            self._mark_argument(name, spec)

    def _describe(self) -> list[Argument]:
        found = []
        names = parameter_names(self.f, len(self.args))
        for name, x in zip(names, self.args, strict=True):
            found.append(Argument(name, describe(x, self._leaf, f"argument {name!r}")))
        for name, x in self.kwargs.items():
            found.append(Argument(name, describe(x, self._leaf, f"argument {name!r}"), keyword=True))
        return found

    def _leaf(self, t: Tensor) -> Leaf:
        self.tensors.append(t)
        return Leaf(len(self.tensors) - 1)

    # dimensions ---------------------------------------------------------------------------------------------

    def _mark_argument(self, name: str, spec: Any) -> None:
        found = next((a for a in self.arguments if a.name == name), None)
        if found is None:
            known = [a.name for a in self.arguments]
            raise located(ArgumentError(f"export: dynamic names argument {name!r}; the arguments are {known}"))
        self._mark(found.tree, spec, f"argument {name!r}")

    def _mark(self, tree: Tree, spec: Any, where: str) -> None:
        """Note the dimensions that `spec` names in `tree`: by axis for a tensor, by key for containers."""
        if spec is None:
            return
        entries = list(spec.items()) if isinstance(spec, Mapping) else list(enumerate(spec))
        if isinstance(tree, Leaf):
            for axis, dim in entries:
                if dim is not None:
                    self._mark_axis(tree.index, axis, dim, where)
        elif isinstance(tree, Container):
            keys = tree.keys or tuple(range(len(tree.items)))
            for key, inner in entries:
                if key not in keys:
                    raise located(ArgumentError(f"export: dynamic names {key!r} in {where}, which has {list(keys)}"))
                self._mark(tree.items[keys.index(key)], inner, f"{where}[{key!r}]")
        else:
            raise located(ArgumentError(f"export: dynamic names axes of {where}, which is no tensor"))

    def _mark_axis(self, index: int, axis: Any, dim: Any, where: str) -> None:
        t = self.tensors[index]
        if not isinstance(axis, int) or not -t.ndim <= axis < t.ndim:
            raise located(ArgumentError(f"export: {where} has {t.ndim} axes; there is no axis {axis!r}"))
        if not isinstance(dim, (str, Dim)):
            raise located(ArgumentTypeError(f"export: axis {axis} of {where} must be named by a string or a Dim"))
        n = t.shape[axis]
        given = Dim(dim, example=n) if isinstance(dim, str) else Dim(dim.name, dim.min, dim.max, dim.step, n)
        if isinstance(dim, Dim) and (dim.min, dim.max, dim.step) != (1, None, 1):
            self.fixed.add(given.name)
        known = self.dims.setdefault(given.name, given)
        if known.example != n:
            raise located(
                ArgumentError(
                    f"export: dimension {given.name!r} is {known.example} elsewhere and {n} in axis {axis} of {where}"
                )
            )
        if isinstance(dim, Dim):
            self.dims[given.name] = given
        if not given.allows(n):
            raise located(ArgumentError(f"export: axis {axis} of {where} is {n}, which is not {given}"))
        self._axes.setdefault(index, {})[axis % t.ndim] = given.name

    @property
    def sizes(self) -> dict[str, int]:
        """The lengths of the dimensions."""
        return {name: dim.example for name, dim in self.dims.items()}

    def types(self, sizes: Mapping[str, int]) -> list[TensorType]:
        """The symbolic types of the tensors, at these sizes."""
        found = []
        for i, t in enumerate(self.tensors):
            axes = self._axes.get(i, {})
            shape = [
                SymbolicInt(sizes[axes[k]], symbol(axes[k])) if k in axes else n for k, n in enumerate(t.type_.shape)
            ]
            found.append(t.type_.with_shape(tuple(shape)))
        return found

    # calling ------------------------------------------------------------------------------------------------

    def call(self, tensors: Mapping[int, Tensor]) -> Any:
        """The function of these tensors."""
        built = [build(a.tree, tensors, {}) for a in self.arguments]
        count = len(self.args)
        return self.f(*built[:count], **dict(zip(self.kwargs, built[count:], strict=True)))


def name_of(f: Any) -> str:
    """The name of a program made of `f`."""
    found = getattr(f, "__name__", None)
    name = found if isinstance(found, str) else type(f).__name__
    return "program" if name == "<lambda>" else name


def parameter_names(f: Any, count: int) -> Sequence[str]:
    """Names for `count` arguments by position."""
    target = f.forward if hasattr(f, "forward") else f
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return [f"arg{i}" for i in range(count)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    return [names[i] if i < len(names) else f"{rest}{i - len(names)}" for i in range(count)]
