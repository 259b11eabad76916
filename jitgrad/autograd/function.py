"""Custom differentiable functions in Python: `Function` with `forward` and `backward`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentTypeError, AutogradError, UnsupportedError
from jitgrad.ir.location import user_location
from jitgrad.ir.op import Op, op
from jitgrad.ir.types import TensorType

from ..aliasing import alias
from ..arrays import device_of, on_device
from ..dispatch import as_tensor, data_of, edge
from ..errors import located
from ..levels import innermost
from ..mode import local
from ..tape import PackedData, TapeNode
from ..tensor import Tensor, wrap
from .grad_mode import no_grad

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Specify retain_graph=True when calling .backward() or autograd.grad() the first time"
)


@op
class _PythonOp(Op):
    """Stands for a custom function on the tape; the node itself knows how to go backward."""

    name = "python_function"


class Context:
    """What `forward` leaves for `backward` (`ctx`)."""

    def __init__(self, recorded: bool = True) -> None:
        self._saved: tuple[Any, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._recorded = recorded
        self._released = False
        self._non_differentiable: set[int] = set()
        self._dirty: set[int] = set()
        self.needs_input_grad: tuple[bool, ...] = ()
        self.returned = 0
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `backward`, where they are `ctx.saved_tensors`."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise located(
                    ArgumentTypeError(
                        f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                    )
                )
        hooks = local.mode.saved_hooks if self._recorded else None
        self._saved = tensors if hooks is None else tuple([None if t is None else hooks.pack(t) for t in tensors])
        self._versions = tuple(0 if t is None else t._version for t in tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`, where they are `ctx.saved_tensors`."""
        self.saved_for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors saved, if none was written in place since."""
        if self._released:
            raise located(AutogradError(FREED))
        if any(isinstance(t, PackedData) for t in self._saved):
            return tuple([as_tensor(t.unpack()) if isinstance(t, PackedData) else t for t in self._saved])
        for t, version in zip(self._saved, self._versions, strict=True):
            if t is not None and t._version != version:
                raise AutogradError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation"
                )
        return self._saved

    def release(self) -> None:
        """Forget what was saved, after the gradient has been taken."""
        if self._saved:
            self._saved, self._released = (), True

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results have no gradient."""
        self._non_differentiable |= set(map(id, tensors))

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These inputs were written in place by `forward`."""
        self._dirty |= set(map(id, tensors))

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for results without a gradient."""
        self.materialize_grads = value


class FunctionNode(TapeNode):
    """The tape node of a custom function."""

    __slots__ = ("context", "function", "outputs", "results", "slots")

    context: Context
    function: type[Function]
    results: tuple[TensorType, ...]
    slots: tuple[int, ...]
    outputs: tuple[int, ...]  # which of what `forward` returned are the results; the others are no tensors

    def name(self) -> str:
        """`SquareBackward`, as PyTorch names it."""
        return f"{self.function.__name__}Backward"

    def __getattr__(self, name: str) -> Any:
        if name in ("context", "_metadata"):
            raise AttributeError(name)
        return getattr(self.context, name)  # `grad_fn` answers for `ctx`, as in PyTorch

    def release(self) -> None:
        """Forget what `forward` saved, if it did."""
        if self.context._saved:
            self.context.release()
            self.saved = self.owners = None

    def infer_results(self, operands: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        """Types as `forward` gave them."""
        return self.results

    def backward(self, cotangents: Sequence[Any], create: bool) -> list[Any]:
        """Call the user's `backward`, and check what it gives."""
        tracer = local.mode.tracer
        grads: list[Any] = []
        for g, t in zip(cotangents, self.results, strict=True):
            if g is None and self.context.materialize_grads:
                zero = self._zeros(t, cotangents) if tracer is None else tracer.full(t, 0)
                grads.append(zero)
            else:
                grads.append(g if g is None or create else as_tensor(g))
        padded: list[Any] = [None] * self.context.returned
        for i, g in zip(self.outputs, grads, strict=True):
            padded[i] = g
        out = self.function.backward(self.context, *padded)
        given = out if isinstance(out, tuple) else (out,)
        count = len(self.context.needs_input_grad)
        if len(given) < count or any(g is not None for g in given[count:]):
            raise AutogradError(
                f"function {self.name()} returned an incorrect number of gradients (expected {count}, got {len(given)})"
            )
        for i, g in enumerate(given[:count]):
            if g is not None and i not in self.slots:
                raise located(
                    AutogradError(
                        f"function {self.name()} returned a gradient different than None at position {i + 1}, but the "
                        "corresponding forward input was not a Variable"
                    )
                )
        tensors = [self._fitted(i, given[i], t) for i, t in zip(self.slots, self.types, strict=True)]
        if create:
            return tensors
        return [None if g is None else data_of(g) for g in tensors]

    @staticmethod
    def _zeros(type: TensorType, cotangents: Sequence[Any]) -> Tensor:
        """Zeros where the other cotangents are."""
        zeros = np.zeros(type.shape, type.dtype.np)
        known = [g._data if isinstance(g, Tensor) else g for g in cotangents if g is not None]
        return wrap(on_device(zeros, device_of(known[0])) if known else zeros)

    def _fitted(self, i: int, g: Any, t: TensorType) -> Tensor | None:
        """Gradient `i` in the type of its input: summed where the input would broadcast to it, and converted."""
        if g is None:
            return None
        if not isinstance(g, Tensor):
            raise ArgumentTypeError(
                f"expected Tensor or None as gradient {i} of {self.name()} (got {type(g).__name__})"
            )
        if g._data.shape != t.shape:
            try:
                fits = np.broadcast_shapes(t.shape, g._data.shape) == g._data.shape
            except ValueError:
                fits = False
            if not fits:
                raise AutogradError(
                    f"function {self.name()} returned an invalid gradient at index {i} - got {list(g.shape)} but "
                    f"expected shape compatible with {list(t.shape)}"
                )
            extra = len(g.shape) - len(t.shape)
            long = [k for k, n in enumerate(t.shape, extra) if n == 1 and g.shape[k] != 1]
            g = g.sum([*range(extra), *long], keepdim=True).reshape(t.shape)  # type: ignore[attr-defined]
        return g if g.dtype is t.dtype else g.to(t.dtype)  # type: ignore[no-any-return]


class Function:
    """Base of custom functions: static methods `forward(ctx, *args)` and `backward(ctx, *grads)`.

    >>> import jitgrad as jg
    >>> class Square(jg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = jg.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the results; nothing inside is recorded."""
        raise AutogradError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """For the style in which `forward` has no `ctx`: store what `backward` needs."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of the inputs (None for those without one), given those of the results."""
        raise located(
            UnsupportedError(
                "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
                "backward mode AD."
            )
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Tangents of the results, given those of the inputs (None for those without one)."""
        raise located(
            UnsupportedError(
                "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
            )
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise located(
            AutogradError(
                "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
                "function with static forward method."
            )
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if cls.setup_context is not Function.setup_context:
            args, kwargs = _with_defaults(cls.forward, args, kwargs)
        if local.mode.levels:
            level = innermost([a._data for a in args if isinstance(a, Tensor)])
            if level is not None:
                return level.apply_function(cls, args, kwargs)
        return cls._apply_in(context_for(args), args, kwargs)

    @classmethod
    def _apply_in(cls, ctx: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function with this context, and record it."""
        recorded = ctx._recorded
        edges = [edge(a) if isinstance(a, Tensor) else None for a in args]
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                out = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, out)
            else:
                out = cls.forward(ctx, *args, **kwargs)
        results = out if isinstance(out, tuple) else (out,)
        if recorded:
            _check_dirty(ctx, args, results)
            results = tuple(_fresh(r, args, ctx) for r in results)
            _record(cls, ctx, args, edges, results)
        return results if isinstance(out, tuple) else results[0]


def context_for(args: Sequence[Any]) -> Context:
    """A context for a call with these arguments."""
    needs = tuple([isinstance(a, Tensor) and a._requires_grad for a in args])
    ctx = Context(local.mode.grad and any(needs))
    ctx.needs_input_grad = needs
    return ctx


def put_on_tape(cls: type[Function], ctx: Context, args: Sequence[Any], results: Sequence[Any]) -> None:
    """Make fresh `results` those of the function, computed from `args`."""
    _record(cls, ctx, args, [edge(a) if isinstance(a, Tensor) else None for a in args], results)


def _with_defaults(forward: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments by position, those left out too, and those that have to be named."""
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _fresh(result: Any, args: Sequence[Any], ctx: Context) -> Any:
    """An input handed through is a result of its own, unless it was written in place."""
    if isinstance(result, Tensor) and any(result is a for a in args) and id(result) not in ctx._dirty:
        return alias(result)
    return result


def _check_dirty(ctx: Context, args: Sequence[Any], results: Sequence[Any]) -> None:
    """Inputs that `forward` has written to are results, and no leaves that require gradients."""
    if not ctx._dirty:
        return
    if ctx._dirty - set(map(id, results)):
        raise located(
            AutogradError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function."
            )
        )
    if any(isinstance(a, Tensor) and id(a) in ctx._dirty and a.is_leaf and a.requires_grad for a in args):
        raise located(AutogradError("a leaf Variable that requires grad has been used in an in-place operation."))


def _record(
    cls: type[Function], ctx: Context, args: Sequence[Any], edges: Sequence[Any], results: Sequence[Any]
) -> None:
    slots = tuple(i for i, a in enumerate(args) if isinstance(a, Tensor))
    tensors = [args[i] for i in slots]
    outputs = [r for r in results if isinstance(r, Tensor)]
    types = [t.type_ for t in tensors]
    node = FunctionNode(_PythonOp(), tuple([edges[i] for i in slots]), (), (), None, types)
    node.context, node.function, node.slots = ctx, cls, slots
    ctx.returned = len(results)
    node.outputs = tuple([i for i, r in enumerate(results) if isinstance(r, Tensor)])
    node.results = tuple(r.type_ for r in outputs)
    if local.mode.anomaly:
        node.location = user_location()
    for k, r in enumerate(outputs):
        if r.dtype.is_differentiable and id(r) not in ctx._non_differentiable:
            r._node, r._index, r._requires_grad = node, k, True


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for `backward`: nothing in it is recorded, and to differentiate its gradients is an error.

    >>> import jitgrad as jg
    >>> class Square(jg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @jg.autograd.function.once_differentiable
    ...     def backward(ctx, g):
    ...         return 2 * ctx.saved_tensors[0] * g
    >>> x = jg.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            out = backward(ctx, *grads)
        if not local.mode.grad or not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return out
        given = out if isinstance(out, tuple) else (out,)
        known = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        made = [_Twice.apply(g, *known) if isinstance(g, Tensor) else g for g in given]
        return tuple(made) if isinstance(out, tuple) else made[0]

    return once


class _Twice(Function):
    """Stands between gradients taken once and what they came from."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, *known: Tensor) -> Tensor:
        """The gradient."""
        return grad.view_as(grad)  # type: ignore[attr-defined, no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """An error."""
        raise located(
            AutogradError("trying to differentiate twice a function that was marked with @once_differentiable")
        )
