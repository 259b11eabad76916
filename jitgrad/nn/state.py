"""`ModuleState`: a module's parameters and buffers as a flat dict, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jitgrad.ir.errors import JitgradError

from ..aliasing import write
from ..autograd.grad_mode import no_grad
from ..autograd.hooks import RemovableHandle
from ..epoch import HookTable
from ..functions.pointwise import convert
from ..tensor import Tensor
from .parameter import Parameter
from .tree import ModuleTree

_EXTRA = "_extra_state"


class StateDictError(JitgradError, RuntimeError):
    """A `state_dict` that does not fit the module."""


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict(strict=False)` passed over."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


class _Loading:
    """One `load_state_dict`: what is read, and what was found wrong."""

    def __init__(self, state: Mapping[str, Any], strict: bool, assign: bool) -> None:
        self.state = OrderedDict(state)
        self.metadata: dict[str, Any] = getattr(state, "_metadata", None) or {}
        self.strict = strict
        self.assign = assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, state: dict[str, Any], prefix: str) -> None:
        """A module and all inside it, from the entries of `state`, whose names start with `prefix`."""
        local = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            local["assign_to_params_buffers"] = True
        module._load_from_state_dict(state, prefix, local, True, self.missing, self.unexpected, self.errors)
        for name, child in module._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                self.load(child, {k: v for k, v in state.items() if k.startswith(inner)}, inner)
        keys = IncompatibleKeys(self.missing, self.unexpected)
        for hook in list(module._load_state_dict_post_hooks.values()):
            if hook(module, keys) is not None:
                raise TypeError(
                    "a hook of register_load_state_dict_post_hook must return None; it may change the lists in place"
                )

    def result(self, name: str) -> IncompatibleKeys:
        """What was passed over; raises if it is not allowed."""
        errors = list(self.errors)
        if self.strict:
            for what, keys in (("Missing", self.missing), ("Unexpected", self.unexpected)):
                if keys:
                    quoted = ", ".join(f'"{k}"' for k in keys)
                    errors.insert(len(errors) - len(self.errors), f"{what} key(s) in state_dict: {quoted}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise StateDictError(f"Error(s) in loading state_dict for {name}:\n\t{listed}")
        return IncompatibleKeys(self.missing, self.unexpected)


class ModuleState(ModuleTree):
    """`state_dict` and `load_state_dict`."""

    _version: int = 1
    _state_dict_pre_hooks: HookTable
    _state_dict_hooks: HookTable
    _load_state_dict_pre_hooks: HookTable
    _load_state_dict_post_hooks: HookTable

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name. They share the module's memory.

        >>> import jitgrad as jg
        >>> list(jg.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = getattr(destination, "_metadata", None)
        local: dict[str, Any] = {"version": self._version}
        if metadata is not None:
            metadata[prefix[:-1]] = local
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            hook(self, destination, prefix, local)
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._local_state().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._has_extra_state("get_extra_state"):
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _local_state(self) -> dict[str, Tensor]:
        """This module's own parameters and persistent buffers."""
        buffers = [(k, v) for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set]
        return {k: v for k, v in [*self._parameters.items(), *buffers] if v is not None}

    def _has_extra_state(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(ModuleState, method)

    def get_extra_state(self) -> Any:
        """State beyond tensors, kept in the `state_dict`; for subclasses to define, with `set_extra_state`."""
        raise NotImplementedError("get_extra_state: define it together with set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take up what `get_extra_state` gave."""
        raise NotImplementedError("set_extra_state: define it together with get_extra_state")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into this module's parameters and buffers, or with `assign` put the given tensors there.

        Raises `RuntimeError` for tensors of another shape and, if `strict`, for names that do not match.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = _Loading(state_dict, strict, assign)
        loading.load(self, loading.state, "")
        for module in self.modules():
            module._count_change()
        return loading.result(type(self).__name__)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load this module's own tensors; subclasses override it to read older formats."""
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        local_state = self._local_state()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in local_state.items():
            key = prefix + name
            if key in state_dict:
                error = self._load_tensor(name, key, tensor, state_dict[key], assign)
                if error is not None:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA
        if self._has_extra_state("set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            unexpected_keys += [
                k
                for k in state_dict
                if k.startswith(prefix) and k != extra and not self._knows(k[len(prefix) :], local_state)
            ]

    def _knows(self, name: str, local_state: dict[str, Tensor]) -> bool:
        first, dot, _ = name.partition(".")
        return first in (self._modules if dot else local_state)

    def _load_tensor(self, name: str, key: str, tensor: Tensor, given: Any, assign: bool) -> str | None:
        """Load one tensor; what is wrong, if something is."""
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected a jitgrad Tensor from checkpoint but '
                f"received {type(given)}"
            )
        if tensor.shape != given.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
        try:
            if assign:
                setattr(self, name, _assignable(tensor, given))
            else:
                with no_grad():
                    write(tensor, convert(given, tensor.dtype), "load_state_dict")
        except (RuntimeError, TypeError, ValueError) as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.shape} and '
                f"whose dimensions in the checkpoint are {given.shape}, an exception occurred : {error.args}."
            )
        return None

    # hooks ------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects."""
        return _handle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when `state_dict` has collected."""
        return _handle(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return _handle(self._load_state_dict_pre_hooks, lambda *args: hook(self, *args))

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists of keys."""
        return _handle(self._load_state_dict_post_hooks, hook)


def _handle(table: HookTable, hook: Any) -> RemovableHandle:
    return RemovableHandle(table, table.add(hook))


def _assignable(tensor: Tensor, given: Tensor) -> Tensor:
    if not isinstance(tensor, Parameter):
        return given
    if isinstance(given, Parameter):
        given.requires_grad_(tensor.requires_grad)
        return given
    return Parameter(given, tensor.requires_grad)
