"""`ModuleState`: a module's parameters and buffers as a flat dict, and back."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jitgrad.ir.errors import JitgradError, PreconditionError

from ..aliasing import write
from ..autograd.grad_mode import no_grad
from ..autograd.hooks import RemovableHandle
from ..epoch import HookTable
from ..errors import located
from ..functions.pointwise import convert
from ..tensor import Tensor
from .global_hooks import handle_of
from .parameter import Parameter
from .tree import ModuleTree
from .uninitialized import is_lazy

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


class _Before:
    """A module's own tensors as they were before loading, to be put back if it fails."""

    def __init__(self, module: Any, state: Mapping[str, Any], prefix: str, assign: bool) -> None:
        self._registries = [(table, dict(table)) for table in (module._parameters, module._buffers)]
        written = {} if assign else module._local_state()
        loaded = [t for name, t in written.items() if prefix + name in state]
        self._contents = [(t, type(t), t.data if is_lazy(t) else t.detach().clone()) for t in loaded]

    def put_back(self) -> None:
        """Undo what was loaded."""
        for table, before in self._registries:
            if not _are_same(table, before):
                table.clear()
                table.update(before)
        with no_grad():
            for t, kind, content in self._contents:
                if type(t) is not kind:
                    t.__class__ = kind
                    t.data = content
                elif not is_lazy(t):
                    write(t, content, "load_state_dict")


def _are_same(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    return list(now) == list(before) and all(x is y for x, y in zip(now.values(), before.values(), strict=True))


class _Loading:
    """One `load_state_dict`: what is read, what was there before, and what was found wrong."""

    def __init__(self, state: Mapping[str, Any], strict: bool, assign: bool) -> None:
        self.state = OrderedDict(state)
        self.metadata: dict[str, Any] = getattr(state, "_metadata", None) or {}
        self.strict = strict
        self.assign = assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []
        self._before: list[_Before] = []

    def run(self, module: Any) -> IncompatibleKeys:
        """Load a module and all inside it, or nothing; what was passed over."""
        try:
            self.load(module, self.state, "")
            return self.result(type(module).__name__)
        except BaseException:
            for before in reversed(self._before):
                before.put_back()
            raise

    def load(self, module: Any, state: dict[str, Any], prefix: str) -> None:
        """A module and all inside it, from the entries of `state`, whose names start with `prefix`."""
        local = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            local["assign_to_params_buffers"] = True
        self._before.append(_Before(module, state, prefix, self.assign))
        module._load_from_state_dict(state, prefix, local, True, self.missing, self.unexpected, self.errors)
        inside: dict[str, dict[str, Any]] = {}
        for key, value in state.items():
            name, dot, _ = key.removeprefix(prefix).partition(".")
            if dot and key.startswith(prefix):
                inside.setdefault(name, {})[key] = value
        for name, child in module._modules.items():
            if child is not None:
                self.load(child, inside.get(name, {}), f"{prefix}{name}.")
        keys = IncompatibleKeys(self.missing, self.unexpected)
        for hook in list(module._load_state_dict_post_hooks.values()):
            if hook(module, keys) is not None:
                raise located(
                    PreconditionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace."
                    )
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
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name. They share the module's memory.

        `destination`, `prefix` and `keep_vars` by position are of an older form, with a `FutureWarning`.

        >>> import jitgrad as jg
        >>> list(jg.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        if args:
            destination, prefix, keep_vars = _by_position(args, destination, prefix, keep_vars)
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
        for hook, is_public in list(self._state_dict_hooks.values()):
            replaced = hook(self, destination, prefix, local)
            if replaced is not None and is_public:
                raise located(StateDictError("state_dict post-hook must return None"))
            destination = destination if replaced is None else replaced
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

        Raises `RuntimeError` for tensors of another shape and, if `strict`, for names that do not match; then no
        tensor of the module has changed.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        try:
            return _Loading(state_dict, strict, assign).run(self)
        finally:
            for module in self.modules():
                module._count_change()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load this module's own tensors; subclasses override it to read older formats."""
        given = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook, with_module in list(self._load_state_dict_pre_hooks.values()):
            hook(*((self, *given) if with_module else given))
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
                f'While copying the parameter named "{key}", expected jitgrad.Tensor or Tensor-like object from '
                f"checkpoint but received {type(given)}"
            )
        if tensor.shape == () and given.ndim == 1 and given.shape[0]:
            given = given[0]  # type: ignore[index]  # as PyTorch reads numbers of before its version 0.4
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
        return handle_of(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when `state_dict` has collected."""
        return handle_of(self._state_dict_hooks, (hook, True))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form of `register_state_dict_post_hook`, whose hook may return another `state_dict`."""
        return handle_of(self._state_dict_hooks, (hook, False))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return handle_of(self._load_state_dict_pre_hooks, (hook, True))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """The older form of `register_load_state_dict_pre_hook`, whose hook is called without the module."""
        return handle_of(self._load_state_dict_pre_hooks, (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists of keys."""
        return handle_of(self._load_state_dict_post_hooks, hook)


def _by_position(
    args: tuple[Any, ...], destination: dict[str, Any] | None, prefix: str, keep_vars: bool
) -> tuple[dict[str, Any] | None, str, bool]:
    warnings.warn("state_dict: positional arguments are deprecated, use keywords instead", FutureWarning, stacklevel=3)
    given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
    return given.get("destination", destination), given.get("prefix", prefix), given.get("keep_vars", keep_vars)


def _assignable(tensor: Tensor, given: Tensor) -> Tensor:
    if not isinstance(tensor, Parameter):
        return given
    if isinstance(given, Parameter):
        given.requires_grad_(tensor.requires_grad)
        return given
    return Parameter(given, tensor.requires_grad)
