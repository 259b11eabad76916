"""Hooks on a module's gradients: nodes on the tape around its call, at which the hooks of tape nodes listen.

A module's tensor inputs pass through one node and its outputs through another, so that the gradients of all of them
are there at once. The node at the outputs takes down `grad_output`; the one at the inputs calls the user's hooks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import OperationError
from jitgrad.ir.op import Op, op
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.types import TensorType

from ..aliasing import view
from ..autograd.grad_mode import no_grad
from ..dispatch import edge
from ..errors import located
from ..mode import local
from ..tape import TapeNode
from ..tensor import Tensor

_Tensors = tuple[Tensor | None, ...]
_NOTHING_BEFORE = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require "
    "gradients."
)


@op
class _Passage(Op):
    """Stands for a module's boundary on the tape; nothing is computed there."""

    name = "module_boundary"


class _Boundary(TapeNode):
    """A tape node that hands gradients through, for hooks to listen at."""

    __slots__ = ()

    def name(self) -> str:
        """As PyTorch names it."""
        return "BackwardHookFunctionBackward"

    def infer_results(self, operands: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        """The types that come in."""
        return operands

    def backward(self, cotangents: Sequence[Any], create: bool) -> list[Any]:
        """The gradients, as they are."""
        return list(cotangents)


def _through(values: Sequence[Any]) -> tuple[list[Any], list[int], _Boundary | None]:
    """`values`, of which the tensors with gradients pass through a node; the places of these; the node."""
    places = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x._requires_grad]
    if not places or not local.mode.grad:
        return list(values), [], None
    tensors = [values[i] for i in places]
    node = _Boundary(_Passage(), tuple(map(edge, tensors)), (), (), None, [t.type_ for t in tensors])
    out = list(values)
    for k, (i, t) in enumerate(zip(places, tensors, strict=True)):
        with no_grad():  # a view, so that a write through it is seen by what it shows
            made = out[i] = view(Permute(tuple(range(t.ndim))), t)
        made._node, made._index, made._requires_grad = node, k, True
    return out, places, node


def _spread(places: Sequence[int], grads: Sequence[Any], count: int) -> _Tensors:
    """The gradients at their places among `count`; None elsewhere."""
    found: list[Any] = [None] * count
    for i, g in zip(places, grads, strict=True):
        found[i] = g
    return tuple(found)


class BackwardHooks:
    """The hooks on gradients of one call of a module."""

    def __init__(self, module: Any, hooks: Sequence[Callable[..., Any]], pre: Sequence[Callable[..., Any]]) -> None:
        self._module = module
        self._hooks = hooks
        self._pre = pre
        self._grad_output: _Tensors | None = None
        self._inputs = 0
        self._zeros: list[tuple[int, Any, Any]] = []  # place, shape and dtype of the tensors among the inputs
        self._has_gradients_before = False

    def on_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments, through a node that calls the hooks with their gradients."""
        self._inputs = len(args)
        self._zeros = [(i, x.shape, x.dtype) for i, x in enumerate(args) if isinstance(x, Tensor)]
        values, places, node = _through(args)
        if node is None:
            return args
        self._has_gradients_before = True

        def call(grads: Sequence[Any], _: Any) -> Any:
            if self._grad_output is None:  # the gradient came by another way than the module's outputs
                return None
            grad_input = self._filled(_spread(places, grads, self._inputs))
            for hook in self._hooks:
                grad_input = _checked(hook(self._module, grad_input, self._grad_output), grad_input, "hook", "input")
            self._grad_output = None
            return tuple([grad_input[i] for i in places])

        node.register_hook(call)  # type: ignore[attr-defined]
        return tuple(values)

    def _filled(self, grads: _Tensors) -> _Tensors:
        """The gradients of inputs, with zeros for tensors that none flows to, as PyTorch has it."""
        known: Any = next(g for g in grads if g is not None)
        found = list(grads)
        for i, shape, dtype in self._zeros:
            if found[i] is None:
                found[i] = known.new_zeros(shape, dtype=dtype)
        return tuple(found)

    def on_outputs(self, result: Any) -> Any:
        """The result, through a node that takes down its gradients."""
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=2,
            )
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        values, places, node = _through(outputs)
        count = len(outputs)  # what hooks hold lives as long as the tape: numbers, and no tensors
        if node is None:
            return result

        def note(grads: Sequence[Any]) -> Any:
            grad_output = _spread(places, grads, count)
            for hook in self._pre:
                grad_output = _checked(hook(self._module, grad_output), grad_output, "pre hook", "output")
            self._grad_output = grad_output
            if not self._has_gradients_before:
                self._call_alone(grad_output)
            return tuple([grad_output[i] for i in places])

        node.register_prehook(note)  # type: ignore[attr-defined]
        if not isinstance(result, tuple):
            return values[0]
        return type(result)(*values) if hasattr(result, "_fields") else tuple(values)

    def _call_alone(self, grad_output: _Tensors) -> None:
        """Call the hooks of a module none of whose inputs has a gradient."""
        self._grad_output = None
        if not self._hooks:
            return
        warnings.warn(_NOTHING_BEFORE, stacklevel=2)
        for hook in self._hooks:
            given = hook(self._module, (None,) * self._inputs, grad_output)
            if given is not None and not (isinstance(given, tuple) and all(g is None for g in given)):
                raise located(
                    OperationError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        "for all gradients."
                    )
                )


def _checked(given: Any, before: _Tensors, what: str, of: str) -> _Tensors:
    """What a hook gave in place of the gradients `before`."""
    if given is None:
        return before
    given = given if isinstance(given, (tuple, list)) else (given,)
    if len(given) != len(before):
        raise located(
            OperationError(
                f"Backward {what} returned an invalid number of grad_{of}, got {len(given)}, but expected {len(before)}"
            )
        )
    return tuple(given)


def hook_last_node(module: Any, hooks: Sequence[Callable[..., Any]], args: Any, result: Any) -> None:
    """The older hooks on gradients: they listen at the last tape node of the module, whatever that is."""
    tensor = _first_tensor(result)
    node = None if tensor is None else tensor._node
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda inputs, outputs, hook=hook: hook(module, inputs, outputs))  # type: ignore[attr-defined]
    outputs = result if isinstance(result, tuple) else (result,)
    reason = None
    if not all(isinstance(x, Tensor) for x in outputs):
        reason = "on a Module that does not return a single Tensor or a tuple of Tensors"
    elif not all(isinstance(x, Tensor) for x in args):
        reason = "on a Module that does not take as input a single Tensor or a tuple of Tensors"
    elif len({t._node for t in outputs if t._node is not None}) > 1:
        reason = "when outputs are generated by different autograd Nodes"
    elif {e[0] if isinstance(e, tuple) else e for e in node.edges if e is not None} - {edge(t) for t in args}:
        reason = "when the forward contains multiple autograd Nodes"
    if reason is not None:
        warnings.warn(
            f"Using a non-full backward hook {reason} is deprecated: it misses some gradients. Please use "
            "register_full_backward_hook to get the documented behavior.",
            FutureWarning,
            stacklevel=2,
        )


def _first_tensor(result: Any) -> Tensor | None:
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = next((v for v in result.values() if isinstance(v, Tensor)), None)
        elif isinstance(result, (tuple, list)) and result:
            result = result[0]
        else:
            return None
    return result
