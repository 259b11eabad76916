"""Hooks on gradients: functions called with a tensor's gradient, which may replace it."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir.errors import AutogradError

from ..arrays import owned
from ..backend import DeviceArray
from ..mode import local
from ..tensor import Tensor, note_rebinding, wrap

Hook = Callable[[Tensor], Any]


class RemovableHandle:
    """What registering gives back; `remove()` takes the hook off again."""

    def __init__(self, hooks: OrderedDict[int, Any], key: int) -> None:
        self._hooks = weakref.ref(hooks) if hasattr(hooks, "__weakref__") else (lambda: hooks)
        self._key = key

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


class NodeHooks:
    """The hooks of a node's results, and the tensors that retain their gradient."""

    def __init__(self) -> None:
        self.tables: dict[int, HookTable] = {}
        self.retained: dict[int, weakref.ref[Tensor]] = {}

    def run(self, grads: Sequence[Any], create: bool) -> list[Any]:
        """Cotangents after the hooks."""
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
        return out


def as_tensor(data: Any) -> Tensor:
    """A cotangent as a tensor of its own."""
    tracer = local.mode.tracer
    out = wrap(owned(data) if tracer is None else tracer.detached(data))
    if tracer is not None:
        tracer.note((out,))
    return out


def run_hooks(table: HookTable | None, grad: Any, create: bool) -> Any:
    """`grad` (data, or a tensor with `create`) after the hooks of `table`."""
    for hook in list((table or {}).values()):
        given = grad if create else as_tensor(grad)
        result = hook(given)
        if result is not None:
            if not isinstance(result, Tensor):
                raise TypeError(f"a gradient hook must return a Tensor or None, not {type(result).__name__}")
            if result.shape != given.shape:
                raise AutogradError(f"a gradient hook changed the shape {given.type_} to {result.type_}")
            tracer = local.mode.tracer
            grad = result if create else result._data if tracer is None else tracer.value(result)
    return grad


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
        if t._hooks is None:
            t._hooks = HookTable()
        note_rebinding()
        tracer = local.mode.tracer
        if tracer is not None and isinstance(t._data, (np.ndarray, DeviceArray)):
            tracer.lost = "the call registered a hook on a tensor made outside it"
        return t._hooks.add(hook)  # type: ignore[no-any-return]
    hooks = _node_hooks(t)
    return hooks.tables.setdefault(t._index, HookTable()).add(hook)


def retain_grad(t: Tensor) -> None:
    """Keep the gradient of a non-leaf tensor in its `.grad`."""
    if not t._requires_grad:
        raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
    if t._node is not None:
        _node_hooks(t).retained[t._index] = weakref.ref(t)


def retains_grad(t: Tensor) -> bool:
    """Whether a non-leaf keeps its gradient."""
    hooks = None if t._node is None else t._node.hooks
    return hooks is not None and t._index in hooks.retained


def _node_hooks(t: Tensor) -> NodeHooks:
    node = t._node
    assert node is not None
    if node.hooks is None:
        node.hooks = NodeHooks()
    return node.hooks  # type: ignore[no-any-return]


Tensor.register_hook = register_hook  # type: ignore[attr-defined]
Tensor.retain_grad = retain_grad  # type: ignore[attr-defined]
Tensor.retains_grad = property(retains_grad)  # type: ignore[attr-defined]
