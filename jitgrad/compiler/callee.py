"""Whether a frame calls the function of the frame above it itself, or something between them gets the result first.

`max(xs, key=f)` calls `f`, and looks at what it gives. Nothing tells the two apart but what stands in the code, so the
expression that is called is read off the bytecode in front of the call, and looked up without running any code.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Effect = Callable[[dis.Instruction], "tuple[int, int] | None"]
Path = tuple[str | None, ...]  # a variable's name, None for any other expression, and names of attributes

_CONVERSIONS = {float: "__float__", int: "__int__", complex: "__complex__"}
_VARIABLES = ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME")
_NOTHING = frozenset({"PUSH_NULL", "EXTENDED_ARG", "CACHE"})
_MISSING = object()


def called(before: Sequence[dis.Instruction], of: Effect) -> Path | None:
    """How the last of these instructions, a call, comes to what it calls.

    `of` gives what an instruction takes from the stack and puts on it.
    """
    effects = [of(i) for i in before]
    if effects[-1] is None:
        return None
    missing, first = effects[-1][0], len(before) - 1
    while missing > 0:
        if before[first].is_jump_target:  # what is on the stack may come from elsewhere
            return None
        first -= 1
        effect = effects[first] if first >= 0 else None
        if effect is None:
            return None
        missing += effect[0] - effect[1]
    if missing < 0:
        return None
    depth, end = 0, first
    for k in range(first, len(before) - 1):
        taken, given = effects[k]  # type: ignore[misc]
        if depth - taken < 2:  # it makes one of the two lowest entries, which are what is called
            end = k + 1
        depth += given - taken
    return _path([i for i in before[first:end] if i.opname not in _NOTHING])


def calls_itself(frame: types.FrameType, child: types.FrameType, path: Path | None) -> bool:
    """Whether the call that `frame` is at, of what `path` stands for, is that of the function of `child`."""
    if path is None:
        return False
    callee = _found(frame, path)
    if callee is _MISSING:
        return len(path) > 1 and _is_method(child, str(path[-1]))
    if isinstance(callee, type):
        return callee in _CONVERSIONS and _is_method(child, _CONVERSIONS[callee])
    return _is_function(callee, child.f_code)


def _path(code: Sequence[dis.Instruction]) -> Path | None:
    """The variable and the attributes that these instructions read."""
    names: list[str | None] = []
    for i in reversed(code):
        kind = i.opname
        if kind in ("LOAD_ATTR", "LOAD_METHOD"):
            names.append(i.argval)
            continue
        is_variable = kind.startswith(_VARIABLES) and i is code[0] and isinstance(i.argval, str)
        names.append(i.argval if is_variable else None)
        break
    return tuple(names[::-1]) if len(names) > 1 or names[0] is not None else None


def _found(frame: types.FrameType, path: Path) -> Any:
    """What these names stand for in a frame; `_MISSING` where that can't be told without running code."""
    name = path[0]
    if name is None:
        return _MISSING
    callee = _MISSING
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if name in names:
            callee = names[name]
            break
    for attribute in path[1:]:
        callee = _attribute(callee, str(attribute))
    return callee


def _attribute(owner: Any, name: str) -> Any:
    if owner is _MISSING:
        return _MISSING
    found = inspect.getattr_static(owner, name, _MISSING)
    if found is _MISSING:
        children = inspect.getattr_static(owner, "_modules", None)
        return children.get(name, _MISSING) if isinstance(children, Mapping) else _MISSING
    if isinstance(found, types.MemberDescriptorType):
        return found.__get__(owner)
    return _MISSING if isinstance(found, property) else found


def _is_function(callee: Any, code: types.CodeType) -> bool:
    """Whether calling `callee` runs `code`, and gives what that gives."""
    while isinstance(callee, (types.MethodType, functools.partial, staticmethod, classmethod)):
        callee = callee.func if isinstance(callee, functools.partial) else callee.__func__
    if not isinstance(callee, (types.FunctionType, type)):
        callee = inspect.getattr_static(type(callee), "__call__", None)
    return isinstance(callee, types.FunctionType) and callee.__code__ is code


def _is_method(child: types.FrameType, name: str) -> bool:
    """Whether a frame is that of the method of this name of its first argument."""
    code = child.f_code
    owner = child.f_locals.get(code.co_varnames[0], _MISSING) if code.co_argcount else _MISSING
    return _is_function(inspect.getattr_static(type(owner), name, None), code)
