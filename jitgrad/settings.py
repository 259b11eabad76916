"""Settings of PyTorch's that scripts call: threads, determinism, precision, warnings.

jitgrad's results are the same for any number of threads and computed in the precision of their dtypes, so that most
of these are remembered and change nothing.
"""

from __future__ import annotations

from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError

from . import promotion
from .autograd.anomaly import is_anomaly_enabled, set_detect_anomaly
from .backend import get_num_threads, set_num_threads
from .errors import located
from .functions.registry import public
from .mode import local
from .tensor_types import dtype_of_type_name

__all__: list[str] = []

_PRECISIONS = ("highest", "high", "medium")
_DEBUG_MODES = ("default", "warn", "error")


class _Settings:
    """What was asked for."""

    def __init__(self) -> None:
        self.deterministic = False
        self.warn_only = False
        self.precision = "highest"
        self.warn_always = False
        self.interop_threads = 1


_settings = _Settings()


@public("set_num_threads", method=False)
def _set_num_threads(n: int) -> None:
    """Let kernels use so many threads; results do not depend on it.

    >>> import jitgrad as jg
    >>> jg.set_num_threads(jg.get_num_threads())
    """
    if not isinstance(n, int) or n <= 0:
        raise located(OperationError(f"set_num_threads expects a positive integer, not {n!r}"))
    set_num_threads(n)


@public("get_num_threads", method=False)
def _get_num_threads() -> int:
    """How many threads kernels may use: as many as the process may use cores, unless set."""
    return get_num_threads()


@public(method=False)
def set_num_interop_threads(n: int) -> None:
    """Remembered only: there is no pool for independent operations."""
    if not isinstance(n, int) or n <= 0:
        raise located(OperationError(f"set_num_interop_threads expects a positive integer, not {n!r}"))
    _settings.interop_threads = n


@public(method=False)
def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was given last, or 1."""
    return _settings.interop_threads


@public(method=False)
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembered only: all of jitgrad's results are the same from run to run, for any number of threads.

    >>> import jitgrad as jg
    >>> jg.use_deterministic_algorithms(False)
    >>> jg.are_deterministic_algorithms_enabled()
    False
    """
    _settings.deterministic, _settings.warn_only = bool(mode), bool(warn_only)


@public(method=False)
def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was given last."""
    return _settings.deterministic


@public(method=False)
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was to warn only."""
    return _settings.warn_only


@public(method=False)
def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error": `use_deterministic_algorithms` by a number or name."""
    if debug_mode not in (0, 1, 2, *_DEBUG_MODES):
        raise located(OperationError(f"debug_mode must be 0, 1 or 2, or one of {_DEBUG_MODES}, not {debug_mode!r}"))
    level = _DEBUG_MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


@public(method=False)
def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: what `set_deterministic_debug_mode` takes."""
    return 0 if not _settings.deterministic else 1 if _settings.warn_only else 2


@public(method=False)
def set_float32_matmul_precision(precision: str) -> None:
    """Remembered only: products of float32 matrices are computed in float32, the "highest" precision."""
    if precision not in _PRECISIONS:
        raise located(OperationError(f"{precision!r} is not one of {', '.join(_PRECISIONS)}"))
    _settings.precision = precision


@public(method=False)
def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given last."""
    return _settings.precision


@public(method=False)
def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the normal range are always kept."""
    return False


@public(method=False)
def set_warn_always(b: bool) -> None:
    """Remembered only: how often a warning is shown is for Python's `warnings` to say."""
    _settings.warn_always = bool(b)


@public(method=False)
def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given last."""
    return _settings.warn_always


@public(method=False)
def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off in this thread; see `autograd.detect_anomaly`."""
    set_detect_anomaly(mode, check_nan)


@public("is_anomaly_enabled", method=False)
def _is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread."""
    return is_anomaly_enabled()


@public(method=False)
def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN."""
    return local.mode.check_nan


@public(method=False)
def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by the name of a tensor type, such as "jitgrad.DoubleTensor"."""
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    dtype = dtype_of_type_name(name)
    if dtype is None:
        raise located(ArgumentTypeError(f"invalid type object: {t!r}; only floating-point types are supported"))
    if dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        raise located(ArgumentError("only floating-point types are supported as the default type"))
    promotion.set_default_dtype(dtype)
