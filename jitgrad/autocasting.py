"""How autocast reaches functions: `autocasts` wraps those on the lists, which costs one look-up while it is off.

`mode.autocast` is None, or what calls go by: the autocast type per device type, and whether casts are kept. Inside a
listed function autocast is off, as what it calls has been decided by its own rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import DTypeError, OperationError
from jitgrad.ir.graph import Value
from jitgrad.ir.ops.select import Convert

from .autocast_lists import AS_GIVEN, FLOAT32, FORBIDDEN, LISTS, LOWER, POINTWISE, WIDEST
from .dispatch import apply
from .errors import located
from .levels import LevelData
from .mode import local
from .tensor import Tensor, wrap

F = TypeVar("F", bound=Callable[..., Any])


class Casting(NamedTuple):
    """The autocast types in force, None for a device type without."""

    cpu: DType | None
    cuda: DType | None
    keeps_casts: bool


_USUAL = (False, False, dtypes.bfloat16, dtypes.float16, True)


class AutocastSettings:
    """A thread's settings: what is switched on, and the casts of parameters kept until the outermost block ends."""

    __slots__ = ("casts", "depth", "dtypes", "enabled", "keeps_casts")

    def __init__(self) -> None:
        self.enabled = {"cpu": False, "cuda": False}
        self.dtypes: dict[str, DType] = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
        self.keeps_casts = True
        self.depth = 0
        self.casts: dict[Any, Any] = {}

    def publish(self) -> None:
        """Tell the thread's mode."""
        cpu, cuda = (self.dtypes[kind] if self.enabled[kind] else None for kind in ("cpu", "cuda"))
        off = cpu is None and cuda is None
        mode = local.mode
        mode.autocast = None if off else Casting(cpu, cuda, self.keeps_casts)
        state = (*self.enabled.values(), *self.dtypes.values(), self.keeps_casts)
        mode.autocast_state = None if state == _USUAL else state

    def forget(self) -> None:
        """Drop the casts kept, those of a trace too."""
        self.casts.clear()
        if local.mode.tracer is not None:
            local.mode.tracer.casts.clear()


def settings() -> AutocastSettings:
    """Those of this thread."""
    mode = local.mode
    if mode.autocast_settings is None:
        mode.autocast_settings = AutocastSettings()
    return mode.autocast_settings


@contextmanager
def restored(state: tuple[Any, ...]) -> Iterator[None]:
    """Inside, this thread's settings are those that `snapshot` gave."""
    own = settings()
    before = snapshot()
    own.depth += 1
    own.enabled, own.dtypes, own.keeps_casts = dict(state[0]), dict(state[1]), state[2]
    own.publish()
    try:
        yield
    finally:
        own.depth -= 1
        if own.depth == 0:
            own.forget()
        own.enabled, own.dtypes, own.keeps_casts = before
        own.publish()


def snapshot() -> tuple[Any, ...]:
    """This thread's settings, for `restored`."""
    own = settings()
    return dict(own.enabled), dict(own.dtypes), own.keeps_casts


def autocasts(name: str) -> Callable[[F], F]:
    """Decorator: the function follows autocast's rule for `name`, if a list has one."""

    def decorate(f: F) -> F:
        if name in POINTWISE or all(name not in rules for rules in LISTS.values()):
            return f

        @functools.wraps(f)
        def function(*args: Any, **kwargs: Any) -> Any:
            casting = local.mode.autocast
            if casting is None:
                return f(*args, **kwargs)
            return _call(f, name, casting, args, kwargs)

        return function  # type: ignore[return-value]

    return decorate


def _call(f: Callable[..., Any], name: str, casting: Casting, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`f` of the arguments in the types its rule says, with autocast off unless there is no rule for them."""
    if kwargs.get("out") is None:
        cast = cast_arguments(name, casting, args, kwargs)
        if cast is None:
            return f(*args, **kwargs)
        args, kwargs = cast
    mode = local.mode
    mode.autocast = None
    try:
        return f(*args, **kwargs)
    finally:
        mode.autocast = casting


def cast_arguments(
    name: str, casting: Casting, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of `name` in the types its rule says; None if there is no rule for them."""
    kind = next((t.device.type for t in _tensors((*args, *kwargs.values()))), "cpu")
    lower = casting.cuda if kind == "cuda" else casting.cpu
    rule = None if lower is None else LISTS[kind].get(name)
    if rule is not None and not isinstance(rule, str):
        rule = rule(*args, **kwargs)
    if rule is None or lower is None:
        return None
    if rule == AS_GIVEN:
        return args, kwargs
    dtype = _target(rule, name, lower, kind, (*args, *kwargs.values()))
    return tuple([_cast(x, dtype, casting) for x in args]), {k: _cast(x, dtype, casting) for k, x in kwargs.items()}


def autocast_operands(name: str, *operands: Any) -> tuple[Any, ...]:
    """Operands of a part of a module that PyTorch has as the function `name`, in the types its rule says."""
    casting = local.mode.autocast
    cast = None if casting is None else cast_arguments(name, casting, operands, {})
    return operands if cast is None else cast[0]


def without_autocast(f: F) -> F:
    """`f` with autocast off: the in-place form of a listed function has no rule."""

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        mode = local.mode
        casting = mode.autocast
        if casting is None:
            return f(*args, **kwargs)
        mode.autocast = None
        try:
            return f(*args, **kwargs)
        finally:
            mode.autocast = casting

    return function  # type: ignore[return-value]


def _tensors(values: tuple[Any, ...]) -> Iterator[Tensor]:
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from (t for t in x if isinstance(t, Tensor))


def _target(rule: str, name: str, lower: DType, kind: str, values: tuple[Any, ...]) -> DType:
    if rule == LOWER:
        return lower
    if rule == FLOAT32:
        return dtypes.float32
    if rule == FORBIDDEN:
        raise located(
            OperationError(
                f"{name} is unsafe to autocast: it loses precision in {lower.name}. Use "
                "binary_cross_entropy_with_logits, which combines it with the sigmoid and is safe."
            )
        )
    assert rule == WIDEST
    return _widest(name, lower, [t for t in _tensors(values) if t.device.type == kind])


def _widest(name: str, lower: DType, tensors: list[Tensor]) -> DType:
    """Float32 if one of the tensors has it, else the autocast type; no other half type."""
    found = lower
    for t in tensors:
        dtype = t.dtype
        if dtype is dtypes.float32:
            found = dtype
        elif dtype.is_floating_point and dtype is not lower and dtype is not dtypes.float64:
            raise located(
                DTypeError(f"{name}: Unexpected floating ScalarType {dtype.name} in autocast to {lower.name}")
            )
    return found


def _cast(x: Any, dtype: DType, casting: Casting) -> Any:
    """A tensor of single precision or less as `dtype`, and those in a list; all else as it is."""
    if isinstance(x, Tensor):
        have = x.dtype
        if have is dtype or not have.is_floating_point or have is dtypes.float64:
            return x
        if (casting.cuda if x.device.type == "cuda" else casting.cpu) is None:
            return x
        is_parameter = x._requires_grad and x._node is None and x._view is None and x._data.__class__ is not Value
        if casting.keeps_casts and is_parameter and have is dtypes.float32:
            return _kept(x, dtype)
        return apply(Convert(dtype), x)
    if x.__class__ is list or x.__class__ is tuple:
        return x.__class__([_cast(t, dtype, casting) for t in x])
    return x


def _kept(x: Tensor, dtype: DType) -> Tensor:
    """The cast of a parameter, made once until the outermost block ends or the parameter is written.

    What is kept is its data and place on the tape rather than a tensor, which a trace would take for one that escapes.
    """
    if isinstance(x._data, LevelData):
        return apply(Convert(dtype), x)
    mode = local.mode
    casts = settings().casts if mode.tracer is None else mode.tracer.casts
    key = (id(x), dtype, mode.grad)
    version = x._version if mode.tracer is None else mode.tracer.value(x)
    found = casts.get(key)
    if found is None or found[1] != version:
        made = apply(Convert(dtype), x)
        casts[key] = x, version, made._data, made._node, made._index, made._requires_grad
        return made
    t = wrap(found[2])
    t._node, t._index, t._requires_grad = found[3:]
    if mode.tracer is not None:
        mode.tracer.note((t,))
    return t
