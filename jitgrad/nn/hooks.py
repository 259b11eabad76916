"""`ModuleHooks`: what is called before and after a module's `forward`, and with its gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..autograd.hooks import RemovableHandle
from ..epoch import HookTable
from .backward_hooks import BackwardHooks, hook_last_node
from .global_hooks import Hook, everywhere, handle_of, one_kind
from .state import ModuleState


class ModuleHooks(ModuleState):
    """Calling with hooks. Those for all modules (`global_hooks`) come first."""

    _forward_pre_hooks: HookTable
    _forward_hooks: HookTable
    _backward_pre_hooks: HookTable
    _backward_hooks: HookTable
    _is_full_backward_hook: bool | None = None

    # registering ------------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns replaces the arguments.

        With `with_kwargs` it is `hook(module, args, kwargs)`, which returns None or both. `prepend` puts it first.
        """
        return handle_of(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:  # fmt: skip
        """Call `hook(module, args, output)` after `forward`; what it returns replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`. `always_call` has it called after an error too,
        with what there is by then. `prepend` puts it first.

        >>> import jitgrad as jg
        >>> layer = jg.nn.Identity()
        >>> handle = layer.register_forward_hook(lambda module, args, output: output + 1)
        >>> layer(jg.zeros(2))
        tensor([1., 1.])
        """
        return handle_of(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the module's inputs are known.

        Both are tuples, over the positional arguments and over the outputs, with None for what is no tensor, and for
        outputs without a gradient. What the hook returns replaces `grad_input`. A compiled module with such hooks
        runs eagerly, unless `backward()` is in the compiled function too.

        >>> import jitgrad as jg
        >>> layer = jg.nn.Linear(2, 1, bias=False)
        >>> handle = layer.register_full_backward_hook(lambda module, before, after: print(after))
        >>> layer(jg.ones(1, 2, requires_grad=True)).sum().backward()
        (tensor([[1.]]),)
        """
        self._is_full_backward_hook = one_kind(self._is_full_backward_hook, True, "on a single Module")
        return handle_of(self._backward_hooks, Hook(hook), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the module's gradients; what it returns replaces `grad_output`."""
        return handle_of(self._backward_pre_hooks, Hook(hook), prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form of `register_full_backward_hook`: its `grad_input` is that of the last operation alone."""
        self._is_full_backward_hook = one_kind(self._is_full_backward_hook, False, "on a single Module")
        return handle_of(self._backward_hooks, Hook(hook))

    # calling ----------------------------------------------------------------------------------------------

    def _with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        called: set[Any] = set()
        result = None
        try:
            backward, older = self._gradient_hooks()
            args, kwargs = self._before_forward(args, kwargs)
            if backward is not None:
                args = backward.on_inputs(args)
            result = self.forward(*args, **kwargs)  # type: ignore[attr-defined]
            for key, hook in self._all_forward_hooks():
                called.add(key)
                replaced = self._call_hook(hook, args, kwargs, result)
                if replaced is not None:
                    result = replaced
            if backward is not None:
                result = backward.on_outputs(result)
            if older:
                hook_last_node(self, older, args, result)
        except Exception:
            self._after_error(called, args, kwargs, result)
            raise
        return result

    def _gradient_hooks(self) -> tuple[BackwardHooks | None, list[Callable[..., Any]]]:
        """The full hooks on gradients, for one call, and the older ones."""
        by_kind: dict[bool | None, list[Callable[..., Any]]] = {True: [], False: [], None: []}
        by_kind[everywhere.is_full] += [hook.function for hook in everywhere._backward_hooks.values()]
        by_kind[self._is_full_backward_hook] += [hook.function for hook in self._backward_hooks.values()]
        pre = [*everywhere._backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        if not by_kind[True] and not pre:
            return None, by_kind[False]
        return BackwardHooks(self, by_kind[True], [hook.function for hook in pre]), by_kind[False]

    def _all_forward_hooks(self) -> Iterator[tuple[Any, Hook]]:
        for table in (everywhere._forward_hooks, self._forward_hooks):
            for key, hook in list(table.items()):
                yield (id(table), key), hook

    def _call_hook(self, hook: Hook, args: Any, kwargs: Any, result: Any) -> Any:
        return hook.function(self, *((args, kwargs, result) if hook.with_kwargs else (args, result)))

    def _after_error(self, called: set[Any], args: Any, kwargs: Any, result: Any) -> None:
        """Call the hooks that are always called and were not yet; an error of theirs gives way to the first."""
        for key, hook in self._all_forward_hooks():
            if not hook.always_call or key in called:
                continue
            try:
                replaced = self._call_hook(hook, args, kwargs, result)
            except Exception as error:
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was silenced as another "
                    f"error was raised in forward: {error}",
                    stacklevel=2,
                )
                continue
            if replaced is not None:
                result = replaced

    def _before_forward(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        for hook in [*everywhere._forward_pre_hooks.values(), *self._forward_pre_hooks.values()]:
            replaced = hook.function(self, args, kwargs) if hook.with_kwargs else hook.function(self, args)
            if replaced is None:
                continue
            if not hook.with_kwargs:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
            elif isinstance(replaced, tuple) and len(replaced) == 2:
                args, kwargs = replaced
            else:
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                )
        return args, kwargs
