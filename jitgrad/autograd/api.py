"""`backward` and `grad`, as in `torch.autograd`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, TypeVar

import numpy as np

from jitgrad.ir.errors import ArgumentError, AutogradError, ShapeError

from ..arrays import filled_beside
from ..backend import DeviceArray
from ..dispatch import edge
from ..errors import located
from ..fast_path import add_small
from ..levels import LevelData
from ..mode import local
from ..tensor import Tensor, check_grad, wrap
from . import engine, replay
from .grad_mode import enable_grad, no_grad
from .hooks import run_after_accumulation, run_hooks
from .multi_grad import BackwardPass

TensorOrTensors = Any


class GradsOfSamples:
    """`grad` for many cotangents at once; set by `func`, which knows of `vmap`."""

    run: ClassVar[Callable[..., Any]]


F = TypeVar("F", bound=Callable[..., Any])


def _tuple(x: Any) -> tuple[Any, ...]:
    """A tensor (or None) as a tuple of it; others as they come: lists, values of a dict, `parameters()`."""
    return (x,) if x is None or isinstance(x, Tensor) else tuple(x)


def _cotangents(outputs: Sequence[Tensor], given: Any, create: bool) -> list[Any]:
    """One cotangent per output: data, or tensors with `create`; ones for a 0-d output without one."""
    grads = [None] * len(outputs) if given is None else list(_tuple(given))
    if len(grads) != len(outputs):
        raise located(AutogradError(f"got {len(outputs)} tensors and {len(grads)} gradients"))
    tracer = local.mode.tracer
    out: list[Any] = []
    for t, g in zip(outputs, grads, strict=True):
        if not t._requires_grad:
            raise located(
                AutogradError(
                    "element 0 of tensors does not require grad and does not have a grad_fn"
                    if len(outputs) == 1
                    else f"element {len(out)} of tensors does not require grad and does not have a grad_fn"
                )
            )
        if g is None:
            if t._data.size != 1:
                raise located(AutogradError("grad can be implicitly created only for scalar outputs"))
            g = wrap(filled_beside(t._data, t._data.shape, 1)) if tracer is None else tracer.full(t.type_, 1)
        elif g.shape != t.shape:
            raise located(
                ShapeError(f"Mismatch in shape: grad_output has shape {g.shape} and output has shape {t.shape}")
            )
        elif g.dtype is not t.dtype:
            g = g.to(t.dtype)
        out.append(g if create else g._data if tracer is None or isinstance(g._data, LevelData) else tracer.value(g))
    return out


def _run(
    outputs: Sequence[Tensor], given: Any, targets: Sequence[Any] | None, retain: bool | None, create: bool
) -> dict[Any, Any]:
    tracer = local.mode.tracer
    if tracer is not None:
        with tracer.module("backward"):
            return _run_here(outputs, given, targets, retain, create)
    return _run_here(outputs, given, targets, retain, create)


def _run_here(
    outputs: Sequence[Tensor], given: Any, targets: Sequence[Any] | None, retain: bool | None, create: bool
) -> dict[Any, Any]:
    cotangents = _cotangents(outputs, given, create)
    keep = create if retain is None else retain
    roots = [edge(t) for t in outputs]
    mode = local.mode
    before, mode.targets_only = mode.targets_only, mode.targets_only or targets is not None
    # Of what a level's gradients are computed by nothing is recorded at it, but further out it must be.
    at_level = mode.levels and any(isinstance(t._data, LevelData) for t in outputs)
    try:
        with enable_grad() if create else nullcontext() if at_level else no_grad():
            return engine.backward(roots, cotangents, targets, retain=keep, create=create)
    finally:
        mode.targets_only = before


def _beside_traces(f: F) -> F:
    """`f` of outputs, run eagerly where a trace is going on in which their history is no part of the graph."""

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        tracer = local.mode.tracer
        if tracer is None:
            return f(*args, **kwargs)
        outputs = _tuple(args[0] if args else next(iter(kwargs.values())))
        tracer.before_backward(engine.collect([edge(t) for t in outputs if t._requires_grad]))
        tracer = local.mode.tracer  # another one, if the trace has ended there
        with tracer.paused() if tracer is not None and tracer.reruns else nullcontext():
            return f(*args, **kwargs)

    return function  # type: ignore[return-value]


@_beside_traces
def backward(
    tensors: TensorOrTensors,
    grad_tensors: TensorOrTensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: TensorOrTensors | None = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they depend on.

    `grad_tensors` are their cotangents (may be None for 0-d tensors). `inputs` restricts the leaves.

        >>> import jitgrad as jg
        >>> x = jg.tensor(2.0, requires_grad=True)
        >>> y = x ** 3 + 2 * x
        >>> jg.autograd.backward(y)
        >>> x.grad
        tensor(14.)
    """
    if local.mode.transforms:
        raise located(
            AutogradError(
                "backward() called inside a functional transform. This is not supported, please use grad or vjp of "
                "jitgrad.func instead, or call backward() outside of functional transforms."
            )
        )
    outputs = _tuple(tensors)
    if inputs is None and not create_graph and _replayed(outputs, grad_tensors, bool(retain_graph)):
        return
    by_edge = {} if inputs is None else {edge(t): t for t in _tuple(inputs)}
    targets = None if inputs is None else list(by_edge)
    with BackwardPass(outputs, targets):
        grads = _run(outputs, grad_tensors, targets, retain_graph, create_graph)
        for target, g in grads.items():
            leaf = by_edge.get(target, target)
            if isinstance(leaf, Tensor):
                g = _hooked(leaf, g, create_graph)
                if not leaf._requires_grad:  # any more
                    continue
                accumulate(leaf, g, create_graph)
                if leaf._hooks:
                    run_after_accumulation(leaf)


def _replayed(outputs: Sequence[Tensor], given: Any, retain: bool) -> bool:
    """Do it the short way, if that can be."""
    mode = local.mode
    if mode.tracer is not None or mode.levels or mode.anomaly:
        return False
    cotangents = _cotangents(outputs, given, False)
    found = replay.run([edge(t) for t in outputs], cotangents, retain)
    if found is None:
        return False
    for leaf, g in found:
        before = leaf._grad
        if not leaf._requires_grad:  # any more
            continue
        if before is None:
            leaf._grad = wrap(g)
        elif not add_small(before, g):
            accumulate(leaf, g, False)
    return True


def _hooked(t: Tensor, g: Any, create: bool) -> Any:
    """The gradient of a leaf after the leaf's hooks; those of other tensors have been called already."""
    if not t._hooks or t._node is not None:
        return g
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.watch_hooks(t)
    return run_hooks(t._hooks, g, create)


def accumulate(leaf: Tensor, g: Any, create: bool) -> None:
    """Add a cotangent to `leaf.grad`."""
    tracer = local.mode.tracer
    before = leaf.grad
    if create:
        leaf.grad = g if before is None else before + g
        return
    if before is None:
        if tracer is None:
            leaf._grad = wrap(g)
        else:
            made = wrap(g)
            tracer.note((made,))
            tracer.write_grad(leaf, made)
        return
    made = wrap(g)
    if tracer is not None:
        tracer.note((made,))
    with no_grad():
        before.add_(made)  # type: ignore[attr-defined]


def _hooked_grads(
    outputs: Sequence[Tensor], given: Any, wanted: dict[Any, Tensor], retain: bool | None, create: bool
) -> dict[Any, Any]:
    """Cotangents by edge of the tensors `wanted`, after the hooks of those."""
    with BackwardPass(outputs, list(wanted)):
        grads = _run(outputs, given, list(wanted), retain, create)
        return {e: _hooked(wanted[e], g, create) for e, g in grads.items()}


@_beside_traces
def grad(
    outputs: TensorOrTensors,
    inputs: TensorOrTensors,
    grad_outputs: TensorOrTensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`, without touching `.grad`.

    `create_graph=True` gives gradients that can be differentiated again. With `is_grads_batched`, `grad_outputs` have
    one more dim in front, and so have the gradients: one for each of its places, all computed at once by `vmap`.
    `only_inputs` is there because PyTorch has it.

        >>> import jitgrad as jg
        >>> x = jg.tensor(3.0, requires_grad=True)
        >>> (g,) = jg.autograd.grad(x ** 3, x, create_graph=True)
        >>> jg.autograd.grad(g, x)
        (tensor(18.),)
    """
    if not only_inputs:
        raise located(ArgumentError("grad: only_inputs=False is not supported; use backward() to reach all leaves"))
    outputs, wanted = _tuple(outputs), _tuple(inputs)
    if is_grads_batched:
        keep = create_graph if retain_graph is None else retain_graph
        return GradsOfSamples.run(outputs, wanted, grad_outputs, keep, create_graph, allow_unused, materialize_grads)
    for i, t in enumerate(wanted):
        if not t._requires_grad:
            raise located(AutogradError(f"One of the differentiated Tensors does not require grad (input {i})"))
    edges = [edge(t) for t in wanted]
    grads = _hooked_grads(outputs, grad_outputs, dict(zip(edges, wanted, strict=True)), retain_graph, create_graph)
    found: list[Tensor | None] = []
    for t, e in zip(wanted, edges, strict=True):
        g = grads.get(e)
        if g is None and materialize_grads:
            found.append(t.new_zeros(t.shape))  # type: ignore[attr-defined]
            continue
        if g is None and not allow_unused:
            raise located(
                AutogradError(
                    "One of the differentiated Tensors appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
            )
        found.append(_result(g, create_graph))
    return tuple(found)


def _result(g: Any, create: bool) -> Tensor | None:
    if g is None or create:
        return g  # type: ignore[no-any-return]
    tracer = local.mode.tracer
    out = wrap(g if tracer is not None or isinstance(g, (DeviceArray, LevelData)) else np.asarray(g))
    if tracer is not None and not isinstance(g, LevelData):
        tracer.note((out,))
    return out


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: TensorOrTensors | None = None,
) -> None:
    """Add the gradient of this tensor to the `.grad` of the leaves it depends on; see `autograd.backward`."""
    backward(self, gradient, retain_graph, create_graph, inputs)


Tensor.backward = _tensor_backward  # type: ignore[attr-defined]

__all__ = ["backward", "check_grad", "grad"]
