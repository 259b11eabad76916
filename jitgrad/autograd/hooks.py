"""Hooks on gradients: functions called with a tensor's gradient, or those of a tape node, which may replace them."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.ir.errors import AutogradError

from ..arrays import owned
from ..backend import DeviceArray
from ..dispatch import data_of
from ..errors import located
from ..levels import LevelData
from ..mode import local
from ..tape import TapeNode
from ..tensor import Tensor, note_rebinding, wrap

Hook = Callable[[Tensor], Any]


class RemovableHandle:
    """What registering gives back; `remove()` takes the hook off again."""

    def __init__(self, hooks: OrderedDict[int, Any], key: int) -> None:
        self._hooks = weakref.ref(hooks) if hasattr(hooks, "__weakref__") else (lambda: hooks)
        self._key = key

    @property
    def id(self) -> int:
        """The key of the hook among those of its owner."""
        return self._key

    def remove(self) -> None:
        """Take the hook off."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self._key, None)
            note_rebinding()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class HookTable(OrderedDict[int, Any]):
    """Hooks in order of registration."""

    def add(self, hook: Any) -> RemovableHandle:
        """Append a hook."""
        key = max(self, default=-1) + 1
        self[key] = hook
        return RemovableHandle(self, key)


class AfterAccumulation(NamedTuple):
    """A leaf's hook that is called when its `.grad` is complete; it stands among the others in the leaf's table."""

    function: Callable[[Tensor], None]


class NodeHooks:
    """The hooks of a node and of its results, and the tensors that retain their gradient."""

    def __init__(self) -> None:
        self.tables: dict[int, HookTable] = {}
        self.retained: dict[int, weakref.ref[Tensor]] = {}
        self.before = HookTable()
        self.after = HookTable()

    def run(self, grads: Sequence[Any], create: bool) -> list[Any]:
        """Cotangents of the results after the hooks that come before the node."""
        out = list(grads)
        for k, g in enumerate(out):
            if g is None:
                continue
            out[k] = run_hooks(self.tables.get(k), g, create)
            ref = self.retained.get(k)
            tensor = ref() if ref is not None else None
            if tensor is not None:
                value = out[k] if create else as_tensor(out[k])
                tensor.grad = value if tensor.grad is None else tensor.grad + value
        for hook in list(self.before.values()):
            out = _replaced(out, hook(_tensors(out, create)), create)
        return out

    def run_after(self, grads: Sequence[Any], results: Sequence[Any], create: bool) -> Sequence[Any]:
        """Cotangents of the operands after the hooks that come behind the node; `results` are those of the results."""
        for hook in list(self.after.values()):
            grads = _replaced(grads, hook(_tensors(grads, create), _tensors(results, create)), create)
        return grads


def _tensors(grads: Sequence[Any], create: bool) -> tuple[Tensor | None, ...]:
    return tuple([g if g is None or create else as_tensor(g) for g in grads])


def _replaced(grads: Sequence[Any], given: Any, create: bool) -> list[Any]:
    """Cotangents, or what a node's hook gave in place of them."""
    if given is None:
        return list(grads)
    given = given if isinstance(given, (tuple, list)) else (given,)
    if len(given) != len(grads):
        raise located(AutogradError(f"a hook of a node got {len(grads)} gradients and returned {len(given)}"))
    return [g if g is None or create else data_of(g) for g in given]


def as_tensor(data: Any) -> Tensor:
    """A cotangent as a tensor of its own."""
    tracer = local.mode.tracer
    if tracer is None or isinstance(data, LevelData):
        return wrap(owned(data))
    out = wrap(tracer.detached(data))
    tracer.note((out,))
    return out


def run_hooks(table: HookTable | None, grad: Any, create: bool) -> Any:
    """`grad` (data, or a tensor with `create`) after the hooks of `table`."""
    for hook in list((table or {}).values()):
        if isinstance(hook, AfterAccumulation):
            continue
        given = grad if create else as_tensor(grad)
        result = hook(given)
        if result is not None:
            if not isinstance(result, Tensor):
                raise TypeError(f"a gradient hook must return a Tensor or None, not {type(result).__name__}")
            if result.shape != given.shape:
                raise AutogradError(f"a gradient hook changed the shape {given.type_} to {result.type_}")
            grad = result if create else data_of(result)
    return grad


def run_after_accumulation(leaf: Tensor) -> None:
    """Call the hooks that wait for `leaf.grad`."""
    for hook in list((leaf._hooks or {}).values()):
        if isinstance(hook, AfterAccumulation):
            hook.function(leaf)


def register_hook(t: Tensor, hook: Hook) -> RemovableHandle:
    """Call `hook(grad)` each time a gradient of `t` is computed; what it returns replaces the gradient.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    """
    if not t._requires_grad:
        raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
    if t._node is None:
        return _add_to_leaf(t, hook)
    hooks = _hooks_of(t._node)
    return hooks.tables.setdefault(t._index, HookTable()).add(hook)


def register_post_accumulate_grad_hook(t: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(t)` each time `backward()` has added to `t.grad`: `t` is a leaf, such as a parameter.

    So an optimizer's step can be taken, and the gradient be freed, while the rest of backward is under way.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
    >>> (2 * x).sum().backward()
    tensor([2., 2.])
    """
    if not t._requires_grad:
        raise located(AutogradError("cannot register a hook on a tensor that doesn't require gradient"))
    if t._node is not None:
        raise located(AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors"))
    return _add_to_leaf(t, AfterAccumulation(hook))


def _add_to_leaf(t: Tensor, hook: Any) -> RemovableHandle:
    if t._hooks is None:
        t._hooks = HookTable()
    note_rebinding()
    tracer = local.mode.tracer
    if tracer is not None and isinstance(t._data, (np.ndarray, DeviceArray)):
        tracer.lost = "the call registered a hook on a tensor made outside it"
    return t._hooks.add(hook)  # type: ignore[no-any-return]


def register_node_hook(node: TapeNode, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad_inputs, grad_outputs)` after the gradients of a node; a tuple replaces those of its inputs.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, None))
    >>> y.sum().backward()
    >>> x.grad
    tensor([30., 30.])
    """
    return _hooks_of(node).after.add(hook)


def register_node_prehook(node: TapeNode, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad_outputs)` before the gradients of a node are computed; a tuple replaces those of its results."""
    return _hooks_of(node).before.add(hook)


def retain_grad(t: Tensor) -> None:
    """Keep the gradient of a non-leaf tensor in its `.grad`."""
    if not t._requires_grad:
        raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
    if t._node is not None:
        _hooks_of(t._node).retained[t._index] = weakref.ref(t)


def retains_grad(t: Tensor) -> bool:
    """Whether a non-leaf keeps its gradient."""
    hooks = None if t._node is None else t._node.hooks
    return hooks is not None and t._index in hooks.retained


def _hooks_of(node: TapeNode) -> NodeHooks:
    if node.hooks is None:
        node.hooks = NodeHooks()
    return node.hooks  # type: ignore[no-any-return]


TapeNode.register_hook = register_node_hook  # type: ignore[attr-defined]
TapeNode.register_prehook = register_node_prehook  # type: ignore[attr-defined]
Tensor.register_hook = register_hook  # type: ignore[attr-defined]
Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook  # type: ignore[attr-defined]
Tensor.retain_grad = retain_grad  # type: ignore[attr-defined]
Tensor.retains_grad = property(retains_grad)  # type: ignore[attr-defined]
