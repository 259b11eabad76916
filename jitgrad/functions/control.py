"""Choices and loops over tensors: `cond`, `while_loop`, `scan`, `map`.

Called eagerly, they are what they look like in Python, with gradients as usual. In a compiled function each is one
op: no Python runs for a branch or a step, and a loop is compiled once, whatever its length.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentTypeError, OperationError, ShapeError

from .. import pytree
from ..compiler.body import Uncapturable
from ..creation import tensor
from ..errors import located
from ..levels import LevelData, has_samples
from ..mode import local
from ..tensor import Tensor
from . import control_graph
from .comparison import where
from .joining import select, stack
from .registry import public
from .shape import movedim

_NUMBERS = (bool, int, float, complex)


def _as_tensor(x: Any, what: str, like: Tensor | None = None) -> Tensor:
    """A tensor, or a number as one; a number in place of `like` has its dtype."""
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, _NUMBERS):
        raise located(OperationError(f"{what} must be tensors or numbers, but one is a {type(x).__name__}"))
    made: Tensor = tensor(x) if like is None else tensor(x, dtype=like.dtype, device=like.device)
    return made


class _Tree:
    """Tensors in nested containers: what a function took or gave."""

    def __init__(self, tree: Any, what: str, like: _Tree | None = None) -> None:
        leaves, self.structure = pytree.flatten(tree)
        if like is not None and self.structure != like.structure:
            raise located(OperationError(f"{what} must have the structure {_shown(like)}, not {_shown(self)}"))
        olds = [None] * len(leaves) if like is None else like.tensors
        self.tensors = [_as_tensor(x, what, old) for x, old in zip(leaves, olds, strict=True)]

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """Other tensors in the same containers."""
        return pytree.unflatten(self.structure, tensors)


def _shown(tree: _Tree) -> str:
    def shown(structure: Any) -> str:
        if structure == pytree.LEAF:
            return "tensor"
        kind, *keys, children = structure
        items = [shown(c) for c in children]
        if keys and isinstance(keys[-1], tuple):
            items = [f"{k}: {v}" for k, v in zip(keys[-1], items, strict=True)]
        return f"{kind.__name__}({', '.join(items)})"

    return shown(tree.structure)


def _check_callable(name: str, *functions: Any) -> None:
    for f in functions:
        if not callable(f):
            raise located(OperationError(f"{name}: a function is needed, not {f!r}"))


def _fall_back(name: str, reason: Uncapturable) -> None:
    """End the trace (an error with `fullgraph`), or give up an outer function that is being captured."""
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.materialise(f"{name} runs in Python, because in its function {reason}")


def _truth(value: Any, name: str, what: str) -> Tensor:
    """What decides, as a 0-d bool tensor."""
    if isinstance(value, _NUMBERS):
        return tensor(builtins.bool(value))  # type: ignore[no-any-return]
    if not isinstance(value, Tensor):
        raise located(OperationError(f"{name}: expected {what} to be bool or tensor, but got {value!r}"))
    if value.numel() != 1:  # type: ignore[attr-defined]
        raise located(
            OperationError(f"{name}: expected {what} to be bool or single-element tensor, but got {list(value.shape)}")
        )
    flat = value.reshape(())  # type: ignore[attr-defined]
    return flat if flat.dtype.kind == "bool" else flat != 0


@public(method=False)
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = (), *more: Any) -> Any:
    """`true_fn(*operands)` if `pred`, else `false_fn(*operands)`.

    `pred` is a bool or a tensor of one element. Both functions give tensors of equal shapes and dtypes, in equal nested
    containers; numbers become tensors. Operands may be given one by one, as in JAX.

    >>> import jitgrad as jg
    >>> @jg.compile
    ... def root(x):
    ...     return jg.cond(x.min() >= 0, lambda x: x.sqrt(), lambda x: x * 0, (x,))
    >>> root(jg.tensor([4.0, 9.0])), root(jg.tensor([-4.0, 9.0]))
    (tensor([2., 3.]), tensor([-0., 0.]))
    """
    _check_callable("cond", true_fn, false_fn)
    operands = (operands, *more) if more or not isinstance(operands, (tuple, list)) else tuple(operands)
    decides = _truth(pred, "cond", "pred") if isinstance(pred, Tensor) else pred
    if isinstance(decides, Tensor) and local.mode.levels and has_samples(decides):
        return _chosen(decides, true_fn(*operands), false_fn(*operands))
    tracer = _tracer()
    if isinstance(pred, Tensor) and tracer is not None:
        leaves, structure = pytree.flatten(operands)
        places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        results: list[_Tree] = []

        def branch(f: Callable[..., Any]) -> control_graph.Function:
            def run(given: list[Tensor]) -> list[Tensor]:
                filled = list(leaves)
                for i, t in zip(places, given, strict=True):
                    filled[i] = t
                result = f(*pytree.unflatten(structure, filled))
                results.append(_Tree(result, "what the branches of cond give", results[0] if results else None))
                return results[-1].tensors

            return run

        try:
            found = control_graph.cond(
                tracer, decides, [branch(true_fn), branch(false_fn)], [leaves[i] for i in places]
            )
            return results[0].filled(found)
        except Uncapturable as reason:
            _fall_back("cond", reason)
    elif not isinstance(pred, (*_NUMBERS, Tensor)):
        _truth(pred, "cond", "pred")
    result = _Tree((true_fn if decides else false_fn)(*operands), "what the branches of cond give")
    return result.filled(result.tensors)


@public(method=False)
def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)` is true.

    `carried_inputs` is a tuple or list of (containers of) tensors; anything else is handed over as one argument, as in
    JAX. Shapes and dtypes stay. Numbers become tensors.

    >>> import jitgrad as jg
    >>> jg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, jg.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    _check_callable("while_loop", cond_fn, body_fn)
    is_single = not isinstance(carried_inputs, (tuple, list))
    carried = _Tree(carried_inputs, "while_loop: what is carried")

    def call(f: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
        tree = carried.filled(tensors)
        return f(tree) if is_single else f(*tree)

    def test(tensors: Sequence[Tensor]) -> Tensor:
        return _truth(call(cond_fn, tensors), "while_loop", "what cond_fn gives")

    def step(tensors: Sequence[Tensor]) -> list[Tensor]:
        result = call(body_fn, tensors)
        result = result if is_single or not isinstance(result, (tuple, list)) else type(carried_inputs)(result)
        after = _Tree(result, "while_loop: what body_fn gives", carried).tensors
        _check_carries("while_loop", carried.tensors, after)
        return after

    tracer = _tracer()
    if tracer is not None:
        try:
            return carried.filled(control_graph.while_loop(tracer, lambda given: [test(given)], step, carried.tensors))
        except Uncapturable as reason:
            _fall_back("while_loop", reason)
    tensors = carried.tensors
    while _goes_on(going := test(tensors)):
        after = step(tensors)
        several = has_samples(going)
        tensors = [where(going, y, x) for x, y in zip(tensors, after, strict=True)] if several else after
    return carried.filled(tensors)


def _tracer() -> Any:
    """The tracer, if a function is captured as a graph of its own: not for samples, and not for what has tangents."""
    return None if local.mode.levels else local.mode.tracer


def _goes_on(going: Tensor) -> bool:
    """Whether a loop does: for some of the samples, if there are several."""
    while isinstance(going._data, LevelData):
        going = going._data.outer()
    return bool(going.any())  # type: ignore[attr-defined]


def _chosen(decides: Tensor, yes: Any, no: Any) -> Any:
    """For each sample of `vmap` the result of its branch."""
    left = _Tree(yes, "what the branches of cond give", None)
    right = _Tree(no, "what the branches of cond give", left)
    return left.filled([where(decides, x, y) for x, y in zip(left.tensors, right.tensors, strict=True)])


def _check_carries(name: str, before: Sequence[Tensor], after: Sequence[Tensor]) -> None:
    for i, (x, y) in enumerate(zip(before, after, strict=True)):
        if x.type_ != y.type_:
            raise located(
                ShapeError(f"{name}: carry {i} is {x.type_} before a step and {y.type_} after it; they must be equal")
            )


@public(method=False)
def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None, *,
    dim: int = 0, reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """`carry, y = combine_fn(carry, x)` for one slice `x` of `xs` along `dim` after another: the last carry, all `y`.

    `init` and `xs` are (containers of) tensors; the carry keeps its shapes and dtypes. Each `y` is stacked along a new
    first dimension, in the order of the slices, also if `reverse` starts from the last one. Without `xs`, `length`
    says how many steps there are, and `x` is None.

    >>> import jitgrad as jg
    >>> jg.scan(lambda total, x: (total + x, total), jg.tensor(0), jg.arange(5))
    (tensor(10), tensor([0, 0, 1, 3, 6]))
    """
    _check_callable("scan", combine_fn)
    carried = _Tree(init, "scan: init")
    sequences = _Tree(xs, "scan: xs") if xs is not None else None
    cut = _sequences("scan", sequences, length, dim)
    given: list[_Tree] = []

    def step(tensors: list[Tensor]) -> list[Tensor]:
        n = len(carried.tensors)
        x = None if sequences is None else sequences.filled(tensors[n:])
        result = combine_fn(carried.filled(tensors[:n]), x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise located(OperationError(f"scan: combine_fn must give a pair (carry, y), not {type(result).__name__}"))
        after = _Tree(result[0], "scan: the carry", carried).tensors
        _check_carries("scan", carried.tensors, after)
        if result[1] is None:
            given[:] = []
            return after
        given[:] = [_Tree(result[1], "scan: y", given[0] if given else None)]
        return [*after, *given[0].tensors]

    found = _scanned("scan", step, carried.tensors, cut, reverse)
    last, stacks = found[: len(carried.tensors)], found[len(carried.tensors) :]
    return carried.filled(last), given[0].filled(stacks) if given else None


@public(method=False)
def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for each slice `x` of `xs` along its first dimension, stacked.

    `xs` is one tensor or a container of some. Compiled, one step follows another; `vmap` computes all at once.

    >>> import jitgrad as jg
    >>> jg.map(lambda x, y: x.sum() * y, jg.ones(3, 2), jg.tensor(2.0))
    tensor([4., 4., 4.])
    """
    _check_callable("map", f)
    sequences = _Tree(xs, "map: xs")
    cut = _sequences("map", sequences, None, 0)
    given: list[_Tree] = []

    def step(tensors: list[Tensor]) -> list[Tensor]:
        given[:] = [_Tree(f(sequences.filled(tensors), *args), "map: results", given[0] if given else None)]
        return given[0].tensors

    found = _scanned("map", step, [], cut, False)
    return given[0].filled(found)


def _sequences(name: str, tree: _Tree | None, length: int | None, dim: int) -> list[Tensor]:
    """What is gone along, with that dimension first."""
    if tree is None or not tree.tensors:
        if not isinstance(length, int):
            raise located(ArgumentTypeError(f"{name}: xs has no tensors, and length does not say how many steps"))
        count: Any = tensor(list(range(length)))
        return [count]
    for t in tree.tensors:
        if not -t.ndim <= dim < t.ndim:
            raise located(OperationError(f"{name}: xs have no dimension {dim}: one is {t.type_}"))
    cut = [movedim(t, dim, 0) if dim not in (0, -t.ndim) else t for t in tree.tensors]
    lengths = {t.shape[0] for t in cut}
    if len(lengths) > 1:
        raise located(OperationError(f"{name}: xs differ in length along dimension {dim}: {sorted(lengths)}"))
    if 0 in lengths or (length is not None and length not in lengths):
        raise located(
            OperationError(
                f"{name}: xs have {lengths.pop()} slices, {'at least 1' if length is None else length} needed"
            )
        )
    return cut


def _scanned(
    name: str, step: control_graph.Function, carried: Sequence[Tensor], sequences: Sequence[Tensor], reverse: bool
) -> Sequence[Tensor]:
    """The last carries, then the stacks: as one op in a trace, else step by step."""
    tracer = _tracer()
    if tracer is not None:
        try:
            return control_graph.scan(tracer, step, carried, sequences, reverse)
        except Uncapturable as reason:
            _fall_back(name, reason)
    count, n = sequences[0].shape[0], len(carried)
    state, rows = list(carried), [()] * count
    for t in reversed(range(count)) if reverse else range(count):
        found = step([*state, *(select(x, 0, t) for x in sequences)])
        state, rows[t] = list(found[:n]), tuple(found[n:])
    return [*state, *(stack(column) for column in zip(*rows, strict=True))]


__all__ = ["cond", "map", "scan", "while_loop"]
