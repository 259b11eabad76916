"""`autocast`: inside, functions on PyTorch's lists run in a half type, in float32, or in their widest argument's type.

The lists are in `autocast_lists`, what applies them in `autocasting`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError

from ..autocasting import settings
from ..backend import gpus
from ..errors import located
from ..tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

_DEVICE_TYPES = ("cpu", "cuda")
_SUPPORTED = (dtypes.bfloat16, dtypes.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether there is an autocast for devices of this type: "cpu" and "cuda".

    >>> import jitgrad as jg
    >>> jg.amp.autocast_mode.is_autocast_available("cpu")
    True
    """
    return device_type in _DEVICE_TYPES


def _check_device_type(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise located(ArgumentError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`"))
    if not is_autocast_available(device_type):
        raise located(OperationError(f"User specified an unsupported autocast device_type '{device_type}'"))
    return device_type


class autocast:
    """Mixed precision inside a block, or inside each call of a decorated function.

    Matrix products, convolutions and attention run in `dtype` (by default bfloat16 on the CPU and float16 on CUDA),
    losses and factorisations in float32; gradients arrive in their parameter's type. A parameter is cast once per
    outermost block, unless `cache_enabled=False`. Blocks nest; `enabled=False` switches autocast off inside. Without
    a CUDA device, `autocast("cuda")` warns and does nothing.

    >>> import jitgrad as jg
    >>> layer = jg.nn.Linear(3, 2)
    >>> with jg.autocast("cpu", dtype=jg.bfloat16):
    ...     y = layer(jg.ones(4, 3))
    >>> y.float().sum().backward()
    >>> y.dtype, layer.weight.grad.dtype
    (jitgrad.bfloat16, jitgrad.float32)
    """

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:  # fmt: skip
        self.device = _check_device_type(device_type)
        state = settings()
        self.fast_dtype = state.dtypes[device_type] if dtype is None else dtype
        self._cache_enabled = state.keeps_casts if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._can_be_enabled()
        self._before: list[tuple[bool, DType, bool]] = []

    def _can_be_enabled(self) -> bool:
        if self.device == "cuda" and not gpus().machine.find():
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=3)
            return False
        if self.fast_dtype in _SUPPORTED:
            return True
        name = self.device.upper()
        warnings.warn(
            f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n{name} Autocast only "
            f"supports dtypes of {', '.join(map(str, _SUPPORTED))} currently.",
            stacklevel=3,
        )
        return False

    def __enter__(self) -> autocast:
        state = settings()
        kind = self.device
        self._before.append((state.enabled[kind], state.dtypes[kind], state.keeps_casts))
        state.enabled[kind], state.dtypes[kind] = self._enabled, self.fast_dtype
        state.keeps_casts = self._cache_enabled
        state.depth += 1
        state.publish()
        return self

    def __exit__(self, *exc: object) -> None:
        state = settings()
        kind = self.device
        state.depth -= 1
        if state.depth == 0:
            state.forget()
        state.enabled[kind], state.dtypes[kind], state.keeps_casts = self._before.pop()
        state.publish()

    def __call__(self, func: F) -> F:
        if not callable(func):
            raise located(
                ArgumentTypeError(
                    f"autocast()(func) requires a callable, but got {type(func).__name__}. "
                    "Did you mean to use autocast as a context manager? For example:\n"
                    "    with jitgrad.autocast(device_type=...):\n        output = model(input)"
                )
            )

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return decorated  # type: ignore[return-value]


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on in this thread, for CUDA unless a device type is given.

    >>> import jitgrad as jg
    >>> with jg.autocast("cpu"):
    ...     jg.is_autocast_enabled("cpu"), jg.is_autocast_enabled()
    (True, False)
    """
    return settings().enabled[_check_device_type("cuda" if device_type is None else device_type)]


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast on or off in this thread: `(device_type, enabled)`, or `(enabled)` for CUDA."""
    kind, value = ("cuda", device_type) if enabled is None else (device_type, enabled)
    state = settings()
    state.enabled[_check_device_type(kind)] = bool(value)
    state.publish()


def get_autocast_dtype(device_type: str) -> DType:
    """The type that autocast uses for devices of this type in this thread.

    >>> import jitgrad as jg
    >>> jg.get_autocast_dtype("cpu")
    jitgrad.bfloat16
    """
    return settings().dtypes[_check_device_type(device_type)]


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the type that autocast uses for devices of this type in this thread."""
    state = settings()
    state.dtypes[_check_device_type(device_type)] = dtype
    state.publish()


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept until the outermost block ends."""
    return settings().keeps_casts


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether casts of parameters are kept until the outermost block ends."""
    state = settings()
    state.keeps_casts = bool(enabled)
    state.publish()


def clear_autocast_cache() -> None:
    """Drop the casts of parameters that are kept."""
    settings().forget()


def autocast_increment_nesting() -> int:
    """Count one more autocast block around; the count now."""
    state = settings()
    state.depth += 1
    return state.depth


def autocast_decrement_nesting() -> int:
    """Count one autocast block less; the count now."""
    state = settings()
    state.depth -= 1
    return state.depth


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)`."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """`get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype("cpu", dtype)`."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> DType:
    """`get_autocast_dtype("cuda")`."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype("cuda", dtype)`."""
    set_autocast_dtype("cuda", dtype)


def _cast_tree(value: Any, kind: str, dtype: DType) -> Any:
    """Tensors of single precision or less on that type of device as `dtype`, also inside containers."""
    if isinstance(value, Tensor):
        eligible = value.dtype.is_floating_point and value.dtype is not dtypes.float64 and value.device.type == kind
        return value.to(dtype) if eligible else value  # type: ignore[attr-defined]
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {_cast_tree(k, kind, dtype): _cast_tree(v, kind, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_cast_tree(v, kind, dtype) for v in value])
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: DType | None = None) -> Any:
    """Decorator for `forward` of an `autograd.Function`, which notes the autocast state for `custom_bwd`.

    With `cast_inputs`, tensors are cast to that type and `forward` runs with autocast off, if autocast is on.

    >>> import jitgrad as jg
    >>> class Double(jg.autograd.Function):
    ...     @staticmethod
    ...     @jg.amp.custom_fwd(device_type="cpu", cast_inputs=jg.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @jg.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> with jg.autocast("cpu"):
    ...     Double.apply(jg.ones(1, dtype=jg.bfloat16))
    tensor([2.])
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_autocast_enabled(device_type)
        if cast_inputs is None or not ctx._fwd_used_autocast:
            return fwd(ctx, *args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(
                ctx, *_cast_tree(args, device_type, cast_inputs), **_cast_tree(kwargs, device_type, cast_inputs)
            )  # fmt: skip

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorator for `backward` of an `autograd.Function`, which runs it in the autocast state of `forward`."""
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward
