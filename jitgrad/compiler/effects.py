"""Effects on the world outside Python's objects: printing, logging, files, clocks. A replay would not have them.

Such calls are noticed while tracing, by a profile hook. Because a hook makes tracing slower, it is set only where
the code that is reached mentions one of their names.
"""

from __future__ import annotations

import datetime
import io
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..epoch import Counted
from .code import Reads, is_library, is_standard, reads_of
from .fingerprint import Same

if TYPE_CHECKING:
    from .tracer import Tracer

_CLOCK = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time", "time_ns"}
_FILE = {"flush", "read", "readline", "readlines", "write", "writelines"}
_LOG = {"critical", "debug", "error", "exception", "info", "warning"}
_BY_MODULE = {
    "builtins": frozenset({"print", "input", "open"}), "io": frozenset({"open"}), "_io": frozenset({"open"}),
    "time": frozenset(_CLOCK | {"sleep"}), "posix": frozenset({"urandom"}),
}  # fmt: skip
_TODAY = frozenset({"now", "today", "utcnow"})
_NAMES = frozenset().union(_CLOCK, _FILE, _LOG, _TODAY, *_BY_MODULE.values(), {"uuid4", "token_bytes", "token_hex"})


def may_have_effects(f: Callable[..., Any], found: Any) -> bool:
    """Whether code that `f` reaches, or that of modules in its fingerprint `found`, mentions an effect's name."""
    if not reads_of(f).mentioned.isdisjoint(_NAMES):
        return True
    stack = [found]
    if isinstance(f, types.FunctionType) and is_library(f.__module__):  # the call of a compiled module
        stack += [Same(cell.cell_contents) for cell in f.__closure__ or ()]
    while stack:
        x = stack.pop()
        if isinstance(x, tuple):
            stack.extend(x)
        elif isinstance(x, Same) and isinstance(x.x, Counted) and _mentions(x.x):
            return True
    return False


def _mentions(thing: Any) -> bool:
    """Whether the users' classes in a tree of modules do."""
    kinds = {type(part) for part in (thing.modules() if hasattr(thing, "modules") else (thing,))}
    known = Reads()
    for kind in kinds:
        for base in kind.__mro__:
            if not is_library(base.__module__) and not is_standard(base.__module__):
                for value in vars(base).values():
                    if isinstance(value, types.FunctionType):
                        known.add(value.__code__)
    return not known.mentioned.isdisjoint(_NAMES)


@contextmanager
def noticed(tracer: Tracer, wanted: bool) -> Iterator[None]:
    """Inside, effects of this thread's calls are noted as `tracer.lost`. Another profiler is left alone."""
    if not wanted or sys.getprofile() is not None:
        yield
        return

    logging = sys.modules.get("logging")
    handle = None if logging is None else logging.Logger.handle.__code__

    def see(frame: types.FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            if _is_effect(function) and not (_asked_by_us(frame) if function.__name__ in _CLOCK else _is_ours(frame)):
                tracer.lost = f"the call uses {function.__name__}()"
        elif event == "call" and frame.f_code is handle and not _is_our_log(frame):
            tracer.lost = "the call logs"

    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(None)


def _is_ours(frame: types.FrameType) -> bool:
    return is_library(frame.f_globals.get("__name__"))


def _asked_by_us(frame: types.FrameType) -> bool:
    """Whether jitgrad has called the library that reads a clock: Numba times what it compiles."""
    caller: types.FrameType | None = frame
    while caller is not None and not _is_ours(caller):
        if not is_standard(caller.f_globals.get("__name__")):
            return False
        caller = caller.f_back
    return caller is not None


def _is_our_log(frame: types.FrameType) -> bool:
    """Whether jitgrad itself logs."""
    caller: types.FrameType | None = frame
    while caller is not None and caller.f_globals.get("__name__") == "logging":
        caller = caller.f_back
    return caller is not None and is_library(caller.f_globals.get("__name__"))


def _is_effect(function: Any) -> bool:
    name = getattr(function, "__name__", None)
    if name not in _NAMES:
        return False
    owner = getattr(function, "__self__", None)
    if isinstance(owner, types.ModuleType):
        return name in _BY_MODULE.get(owner.__name__, ())
    return isinstance(owner, io.IOBase) or (isinstance(owner, type) and issubclass(owner, datetime.date))
