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
_SYSTEM = frozenset({  # what the machine is asked for
    "access", "chdir", "fork_exec", "get_ident", "getcwd", "getpid", "listdir", "lstat", "mkdir", "remove", "rename",
    "replace", "rmdir", "scandir", "stat", "system", "unlink", "urandom",
})  # fmt: skip
_THROUGH = frozenset({  # modules and functions in Python that ask for it
    "active_count", "check_call", "check_output", "current_thread", "cwd", "exists", "getmtime", "getsize", "glob",
    "iglob", "isdir", "isfile", "iterdir", "makedirs", "os", "read_bytes", "read_text", "rglob", "shutil", "subprocess",
    "token_bytes", "token_hex", "uuid4", "write_bytes", "write_text",
})  # fmt: skip
_COMMON = frozenset({"access", "remove", "rename", "replace", "stat"})  # methods of much else are called so
_BY_MODULE = {
    "builtins": frozenset({"print", "input", "open"}), "io": frozenset({"open"}), "_io": frozenset({"open"}),
    "time": frozenset(_CLOCK | {"sleep"}), "_warnings": frozenset({"warn", "warn_explicit"}),
    "posix": _SYSTEM, "_thread": _SYSTEM, "_posixsubprocess": _SYSTEM,
}  # fmt: skip
_TODAY = frozenset({"now", "today", "utcnow"})
_FOR_US = _CLOCK | _SYSTEM  # what libraries that jitgrad calls do too
_NAMES = frozenset().union(_CLOCK, _FILE, _LOG, _TODAY, *_BY_MODULE.values())
_MENTIONS = (_NAMES | _THROUGH) - _COMMON


def may_have_effects(f: Callable[..., Any], found: Any) -> bool:
    """Whether code that `f` reaches, or that of modules in its fingerprint `found`, mentions an effect's name.

    So does a fingerprint that has such a function under another name.
    """
    if not reads_of(f).mentioned.isdisjoint(_MENTIONS):
        return True
    stack = [found]
    if isinstance(f, types.FunctionType) and is_library(f.__module__):  # the call of a compiled module
        stack += [Same(cell.cell_contents) for cell in f.__closure__ or ()]
    while stack:
        x = stack.pop()
        if isinstance(x, tuple):
            if len(x) > 1 and x[0] is types.BuiltinFunctionType and x[1] in _NAMES:
                return True
            stack.extend(x)
        elif isinstance(x, Same):
            found = x.x
            if _mentions(found) if isinstance(found, Counted) else _is_builtin(found) and _is_effect(found):
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
    return not known.mentioned.isdisjoint(_MENTIONS)


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
            if _is_effect(function) and not (_asked_by_us if function.__name__ in _FOR_US else _is_ours)(frame):
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


def _is_builtin(x: Any) -> bool:
    return type(x) is types.BuiltinFunctionType


def _is_effect(function: Any) -> bool:
    name = getattr(function, "__name__", None)
    if name not in _NAMES:
        return False
    owner = getattr(function, "__self__", None)
    if isinstance(owner, types.ModuleType):
        return name in _BY_MODULE.get(owner.__name__, ())
    return isinstance(owner, io.IOBase) or (isinstance(owner, type) and issubclass(owner, datetime.date))
