"""Hooks for all modules together: on calls, on gradients, and on what is registered in a module. For debugging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jitgrad.ir.errors import OperationError

from ..autograd.hooks import RemovableHandle
from ..epoch import Counted, HookTable
from ..errors import located

_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class Hook(NamedTuple):
    """A hook on calls: whether it takes keyword arguments, and whether it is called after an error too."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


class GlobalHooks(Counted):
    """The hooks of all modules; `are_on_calls` says whether there are any that a module's call must heed."""

    _forward_pre_hooks: HookTable
    _forward_hooks: HookTable
    _backward_pre_hooks: HookTable
    _backward_hooks: HookTable
    is_full: bool | None = None  # whether the hooks on gradients are full ones; None before the first

    def __init__(self) -> None:
        self._start_counting()
        self.are_on_calls = False
        for name in _TABLES:
            setattr(self, name, HookTable(self))
        self._on_registration = {kind: HookTable(self) for kind in ("buffer", "module", "parameter")}

    def _count_change(self) -> None:
        super()._count_change()
        self.are_on_calls = any(getattr(self, name) for name in _TABLES)

    def registered(self, kind: str, owner: Any, name: str, value: Any) -> Any:
        """What is registered in a module, after the hooks on that."""
        for hook in list(self._on_registration[kind].values()):
            replaced = hook(owner, name, value)
            if replaced is not None:
                value = replaced
        return value


everywhere = GlobalHooks()


def handle_of(table: HookTable, hook: Any, prepend: bool = False) -> RemovableHandle:
    """Put a hook into a table; the handle that takes it out again."""
    return RemovableHandle(table, table.add(hook, prepend))


def one_kind(known: bool | None, is_full: bool, where: str) -> bool:
    """`is_full`, unless hooks of the other kind are there."""
    if known is not None and known is not is_full:
        raise located(
            OperationError(
                f"Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them."
            )
        )
    return is_full


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the `forward` of every module; what it returns replaces the arguments."""
    return handle_of(everywhere._forward_pre_hooks, Hook(hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the `forward` of every module; what it returns replaces the output.

    >>> import jitgrad as jg
    >>> from jitgrad.nn.modules.module import register_module_forward_hook
    >>> with register_module_forward_hook(lambda module, args, output: print(module)):
    ...     y = jg.nn.ReLU()(jg.ones(2))
    ReLU()
    """
    return handle_of(everywhere._forward_hooks, Hook(hook, with_kwargs, always_call))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older form of `register_module_full_backward_hook`; see `Module.register_backward_hook`."""
    everywhere.is_full = one_kind(everywhere.is_full, False, "as a global Module hook")
    return handle_of(everywhere._backward_hooks, Hook(hook))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when a module's input gradients are known, for every module."""
    everywhere.is_full = one_kind(everywhere.is_full, True, "as a global Module hook")
    return handle_of(everywhere._backward_hooks, Hook(hook))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the gradients of every module."""
    return handle_of(everywhere._backward_pre_hooks, Hook(hook))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` for every buffer that is registered; what it returns replaces it."""
    return handle_of(everywhere._on_registration["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` for every module that is registered; what it returns replaces it."""
    return handle_of(everywhere._on_registration["module"], hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` for every parameter that is registered; what it returns replaces it."""
    return handle_of(everywhere._on_registration["parameter"], hook)
