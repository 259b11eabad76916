"""`Optimizer`: parameter groups, state, and what all optimizers share."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ..autograd.grad_mode import no_grad
from ..autograd.hooks import RemovableHandle
from ..dispatch import host_number
from ..epoch import COUNTER_FIELDS, Counted, HookTable, WatchedDict, WatchedList
from ..errors import located
from ..functions.pointwise import convert
from ..mode import local
from ..tensor import Tensor

Params = Iterable[Any]


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()  # the default of an option that has none
_STEP_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_SAVING_HOOKS = ("_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks")
_LOADING_HOOKS = ("_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks")
_HOOKS = (*_STEP_HOOKS, *_SAVING_HOOKS, *_LOADING_HOOKS)
_FOR_SCHEDULERS = frozenset({"swa_lr", "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum"})


class State(WatchedDict):
    """What an optimizer keeps for each parameter; a parameter not met before has an empty dict."""

    __slots__ = ()

    def __missing__(self, key: Any) -> WatchedDict:
        owner = self._owner()
        if owner is None:
            raise KeyError(key)
        made = WatchedDict(owner)
        self[key] = made
        return made


class ParamGroup(WatchedDict):
    """The options of a group of parameters.

    A number read while tracing becomes a number of the graph, so that the trace holds as long as it stays; `number`
    and `is_set` read it without tying the trace to it.
    """

    __slots__ = ()

    def __init__(self, owner: Optimizer, content: dict[str, Any]) -> None:
        super().__init__(owner, content, owner._matters)
        if "params" in content:
            dict.__setitem__(self, "params", WatchedList(owner, content["params"]))

    def _tie(self, *keys: Any) -> None:
        tracer = local.mode.tracer
        if tracer is not None:
            for key in keys:
                if isinstance(dict.get(self, key), (int, float, tuple)):
                    tracer.surroundings.watch(self, str(key), functools.partial(dict.get, self, key))

    def __getitem__(self, key: Any) -> Any:
        self._tie(key)
        return dict.__getitem__(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._tie(key)
        super().__setitem__(key, value)

    def get(self, key: Any, default: Any = None) -> Any:
        """As in a dict."""
        self._tie(key)
        return dict.get(self, key, default)

    def values(self) -> Any:
        """As in a dict."""
        self._tie(*self)
        return dict.values(self)

    def items(self) -> Any:
        """As in a dict."""
        self._tie(*self)
        return dict.items(self)


class Optimizer(Counted):
    """Base class of optimizers: subclasses define `step`.

    `params` are tensors, or dicts of a group of them with options of its own; `defaults` are the options of the
    others. `_numbers` names the options that `step` reads through `number`, whose changes a compiled step follows
    without looking at Python again.
    """

    _numbers: frozenset[str] = frozenset()

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self._start_counting()
        self.defaults = WatchedDict(self, defaults)
        self.__dict__["state"] = State(self)
        self.param_groups: list[Any] = WatchedList(self)
        for name in _HOOKS:
            self.__dict__[name] = HookTable(self)
        if isinstance(params, Tensor):
            raise located(
                ArgumentTypeError(
                    "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                    f"{type(params).__name__}"
                )
            )
        groups = list(params)
        if not groups:
            raise located(ArgumentError("optimizer got an empty parameter list"))
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _watched_step(cls.step)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        self._count_change()

    @property
    def state(self) -> State:
        """What is kept for each parameter."""
        tracer = local.mode.tracer
        if tracer is not None:
            tracer.begun.look(self)
        return self.__dict__["state"]  # type: ignore[no-any-return]

    # groups -----------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize more tensors, with options of their own."""
        if not isinstance(param_group, dict):
            raise located(ArgumentTypeError(f"param_group must be a dict, but got {type(param_group)}"))
        group = dict(param_group)
        given = group["params"]
        if isinstance(given, set):
            raise located(
                ArgumentTypeError(
                    "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
                    "in sets will change between runs. Please use a list instead."
                )
            )
        self._set_params(group, [given] if isinstance(given, Tensor) else list(given))
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise located(
                    ArgumentError(f"parameter group didn't specify a value of required optimization parameter {name}")
                )
            group.setdefault(name, default)
        self._check_new(group)
        self.param_groups.append(ParamGroup(self, group))

    @staticmethod
    def _set_params(group: dict[str, Any], given: list[Any]) -> None:
        """Tensors, or pairs of names and tensors."""
        named = [p for p in given if isinstance(p, tuple)]
        if named and len(named) != len(given):
            raise located(
                ArgumentError("all optimizer params should be with/without names. Some param names are missing")
            )
        params = [p[1] for p in named] if named else given
        for p in params:
            if not isinstance(p, Tensor):
                raise located(
                    ArgumentTypeError(
                        f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}"
                    )
                )
        group["params"] = params
        if named:
            group["param_names"] = [p[0] for p in named]

    def _check_new(self, group: dict[str, Any]) -> None:
        params = group["params"]
        if not group.get("differentiable") and not all(p.is_leaf for p in params):
            raise located(ArgumentError("can't optimize a non-leaf Tensor"))
        if len({id(p) for p in params}) != len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters", stacklevel=4)
        held = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in held for p in params):
            raise located(ArgumentError("some parameters appear in more than one parameter group"))

    def _matters(self, key: str, old: Any, new: Any) -> bool:
        """Whether a changed option makes `step` do something else, and not only with another number."""
        if key in _FOR_SCHEDULERS:
            return False
        if key not in self._numbers:
            return True
        return _kinds(old) != _kinds(new)

    def number(self, group: dict[str, Any], name: str) -> Any:
        """An option that is a number: itself, or while tracing a 0-d tensor that follows it."""
        value = dict.get(group, name)
        if isinstance(value, (int, float)):
            return host_number(functools.partial(dict.get, group, name), dtypes.float64, name)
        if isinstance(value, tuple):
            return tuple(
                [host_number(lambda i=i: dict.get(group, name)[i], dtypes.float64, name) for i in range(len(value))]  # type: ignore[index, misc]
            )
        return value

    def is_set(self, group: dict[str, Any], name: str) -> bool:
        """Whether an option that is a number is not zero."""
        return bool(dict.get(group, name))

    # stepping ---------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once. `closure` computes the loss again and returns it."""
        raise NotImplementedError(f"{type(self).__name__}.step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the parameters' gradients, or set them to zero."""
        tracer = local.mode.tracer
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    if tracer is None:
                        p._grad = None
                    else:
                        tracer.drop_grad(p)
                elif p.grad is not None:
                    with no_grad():
                        p.grad = p.grad.detach()
                        p.grad.mul_(0)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other arguments."""
        return _handle(self.__dict__[_STEP_HOOKS[0]], hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _handle(self.__dict__[_STEP_HOOKS[1]], hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` is made; `prepend` puts it before the others."""
        return _handle(self.__dict__[_SAVING_HOOKS[0]], hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` with what `state_dict` gives; it may change that, or return another."""
        return _handle(self.__dict__[_SAVING_HOOKS[1]], hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` with a shallow copy of what is loaded; it may change or replace that."""
        return _handle(self.__dict__[_LOADING_HOOKS[0]], hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return _handle(self.__dict__[_LOADING_HOOKS[1]], hook, prepend)

    # state ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and options as plain containers, in which a parameter is its number."""
        before, after = (self.__dict__[name] for name in _SAVING_HOOKS)
        for hook in list(before.values()):
            hook(self)
        return _passed_on(after, self, self._numbered_state())

    def _numbered_state(self) -> dict[str, Any]:
        numbers: dict[int, int] = {}
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
        groups = [
            {**{k: v for k, v in g.items() if k != "params"}, "params": [numbers[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]
        state = {(numbers[id(k)] if isinstance(k, Tensor) else k): dict(v) for k, v in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave, for parameters in the same order."""
        before, after = (self.__dict__[name] for name in _LOADING_HOOKS)
        self._take_up(_passed_on(before, self, state_dict.copy()))
        for hook in list(after.values()):
            hook(self)

    def _take_up(self, state_dict: dict[str, Any]) -> None:
        groups, saved = self.param_groups, state_dict["param_groups"]
        if len(groups) != len(saved):
            raise located(ArgumentError("loaded state dict has a different number of parameter groups"))
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
            raise located(
                ArgumentError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
            )
        by_number = {
            n: p for g, s in zip(groups, saved, strict=True) for n, p in zip(s["params"], g["params"], strict=True)
        }
        self.state.clear()
        for key, value in state_dict["state"].items():
            p = by_number.get(key)
            self.state[key if p is None else p] = value if p is None else WatchedDict(self, _fitting(p, value))
        for g, s in zip(groups, saved, strict=True):
            for name, value in s.items():
                if name != "params":
                    g[name] = copy.deepcopy(value)
        self._count_change()

    def __getstate__(self) -> dict[str, Any]:
        left_out = {*COUNTER_FIELDS, *_HOOKS, "_launcher"}
        return {k: v for k, v in self.__dict__.items() if k not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        self._start_counting()
        for name in _HOOKS:
            own[name] = HookTable(self)
        own["defaults"] = WatchedDict(self, state["defaults"])
        own["state"] = State(self, {k: WatchedDict(self, v) for k, v in state["state"].items()})
        own["param_groups"] = WatchedList(self, [ParamGroup(self, g) for g in state["param_groups"]])

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {i}"]
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join([f"{type(self).__name__} (", *lines[1:], ")"])


def _handle(table: HookTable, hook: Any, prepend: bool = False) -> RemovableHandle:
    return RemovableHandle(table, table.add(hook, prepend))


def _passed_on(hooks: HookTable, optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """The state after hooks that may return another."""
    for hook in list(hooks.values()):
        replaced = hook(optimizer, state_dict)
        state_dict = state_dict if replaced is None else replaced
    return state_dict


def _kinds(value: Any) -> Any:
    """What `step` may branch on: a number's being zero, a tensor's identity."""
    if isinstance(value, tuple):
        return tuple(map(_kinds, value))
    return bool(value) if isinstance(value, (int, float)) else id(value)


def _fitting(p: Tensor, values: dict[str, Any]) -> dict[str, Any]:
    """Copies of saved values, in the parameter's dtype (but for the count of steps)."""
    out = {}
    for key, value in values.items():
        if isinstance(value, Tensor):
            value = value.clone()  # type: ignore[attr-defined]
            if key != "step":
                value = (convert(value, p.dtype) if p.dtype.is_floating_point else value).to(p.device)  # type: ignore[attr-defined]
        out[key] = value
    return out


def _watched_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step`, seen by the tracer and surrounded by the hooks."""

    @functools.wraps(step)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        tracer = local.mode.tracer
        if tracer is not None:
            tracer.touch(self)
        before, after = (self.__dict__[name] for name in _STEP_HOOKS)
        for hook in list(before.values()):
            replaced = hook(self, args, kwargs)
            if replaced is not None:
                args, kwargs = replaced
        if tracer is None:
            result = step(self, *args, **kwargs)
        else:
            with tracer.module(f"{type(self).__name__}.step"):
                result = step(self, *args, **kwargs)
        for hook in list(after.values()):
            hook(self, args, kwargs)
        return result

    return wrapped
