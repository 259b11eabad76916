"""Where a value goes that Python is about to get: whether it can only become part of what the call returns.

The bytecode that follows is run on what it does to one value: whether a local variable, a place on the stack or a new
container may hold it. As soon as anything else might look at it, or something unknown comes, the answer is no. So it is
where what calls the function that gets the value is not the function below it, but something like `max` or `map`.
"""

from __future__ import annotations

import bisect
import dis
import functools
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

from .callee import Path, called, calls_itself
from .handlers import covered, is_call_of_compiled

_NAMESPACES = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "breakpoint"})

_Count = int | Callable[[int], int]
# What instructions take from the stack and put on it: numbers, or functions of the argument.
_EFFECTS: dict[str, tuple[_Count, _Count]] = {
    "NOP": (0, 0), "RESUME": (0, 0), "CACHE": (0, 0), "PRECALL": (0, 0), "KW_NAMES": (0, 0), "EXTENDED_ARG": (0, 0),
    "PUSH_NULL": (0, 1), "LOAD_CONST": (0, 1), "LOAD_NAME": (0, 1), "LOAD_DEREF": (0, 1), "LOAD_CLOSURE": (0, 1),
    "LOAD_GLOBAL": (0, lambda arg: 1 + (arg & 1)), "LOAD_ASSERTION_ERROR": (0, 1),
    "LOAD_METHOD": (1, 2), "LOAD_ATTR": (1, lambda arg: 1 + (arg & 1) * (sys.version_info >= (3, 12))),
    "LOAD_SUPER_ATTR": (3, lambda arg: 1 + (arg & 1)), "STORE_ATTR": (2, 0), "DELETE_ATTR": (1, 0),
    "BINARY_OP": (2, 1), "COMPARE_OP": (2, 1), "IS_OP": (2, 1), "CONTAINS_OP": (2, 1), "BINARY_SUBSCR": (2, 1),
    "BINARY_SLICE": (3, 1), "STORE_SLICE": (4, 0), "STORE_SUBSCR": (3, 0), "DELETE_SUBSCR": (2, 0),
    "UNARY_NEGATIVE": (1, 1), "UNARY_NOT": (1, 1), "UNARY_INVERT": (1, 1), "UNARY_POSITIVE": (1, 1), "TO_BOOL": (1, 1),
    "STORE_GLOBAL": (1, 0), "STORE_DEREF": (1, 0), "STORE_NAME": (1, 0), "POP_TOP": (1, 0), "GET_ITER": (1, 1),
    "GET_LEN": (0, 1), "UNPACK_SEQUENCE": (1, lambda arg: arg), "BUILD_STRING": (lambda arg: arg, 1),
    "BUILD_SET": (lambda arg: arg, 1), "BUILD_SLICE": (lambda arg: arg, 1), "LIST_TO_TUPLE": (1, 1),
    "FORMAT_VALUE": (lambda arg: 1 + bool(arg & 4), 1), "FORMAT_SIMPLE": (1, 1), "FORMAT_WITH_SPEC": (2, 1),
    "CONVERT_VALUE": (1, 1), "LIST_APPEND": (1, 0), "SET_ADD": (1, 0), "LIST_EXTEND": (1, 0), "SET_UPDATE": (1, 0),
    "DICT_UPDATE": (1, 0), "DICT_MERGE": (1, 0), "MAP_ADD": (2, 0), "BEFORE_WITH": (1, 2),
    "CALL": (lambda arg: arg + 2, 1), "CALL_KW": (lambda arg: arg + 3, 1),
    "CALL_FUNCTION_EX": (lambda arg: 3 + (arg & 1), 1), "MAKE_FUNCTION": (lambda arg: 1 + arg.bit_count(), 1),
    "SET_FUNCTION_ATTRIBUTE": (2, 1), "IMPORT_NAME": (2, 1), "IMPORT_FROM": (0, 1), "RETURN_CONST": (0, 0),
    "RAISE_VARARGS": (lambda arg: arg, 0), "RERAISE": (1, 0), "PUSH_EXC_INFO": (1, 2), "POP_EXCEPT": (1, 0),
    "WITH_EXCEPT_START": (0, 1), "CHECK_EXC_MATCH": (1, 1), "END_FOR": (2, 0),
}  # fmt: skip
_CONTAINERS: dict[str, Callable[[int], int]] = {  # new ones, which hold what they are made of
    "BUILD_TUPLE": lambda arg: arg, "BUILD_LIST": lambda arg: arg, "BUILD_MAP": lambda arg: 2 * arg,
    "BUILD_CONST_KEY_MAP": lambda arg: arg + 1,
}  # fmt: skip
_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})

_State = tuple[tuple[bool, ...], frozenset[str]]  # the top of the stack, and local variables, that may hold the value


def is_only_returned() -> bool:
    """Whether the value that the calling method gives its caller can only become part of the traced call's result."""
    child = sys._getframe(2)
    frame = child.f_back
    while frame is not None:
        code, offset = frame.f_code, frame.f_lasti
        is_last = is_call_of_compiled(frame)
        if not is_last and not _reaches_only_result(code, offset):
            return False
        if not calls_itself(frame, child, _called(code, offset)):
            return False
        if is_last:
            return True
        child, frame = frame, frame.f_back
    return False


@functools.lru_cache(4096)
def _called(code: types.CodeType, offset: int) -> Path | None:
    """What the call at `offset` calls, as the names that lead to it."""
    return called([i for i in dis.get_instructions(code) if i.offset <= offset], _effect)


def _effect(i: dis.Instruction) -> tuple[int, int] | None:
    """What an instruction takes from the stack and puts on it; None if it is not known, or goes elsewhere."""
    kind, arg = i.opname, i.arg or 0
    if kind.startswith("LOAD_FAST"):
        return 0, len(i.argval) if isinstance(i.argval, tuple) else 1
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](arg), 1
    if kind not in _EFFECTS or kind in _ENDS:
        return None
    taken, given = (n if isinstance(n, int) else n(arg) for n in _EFFECTS[kind])
    return taken, given


@functools.lru_cache(4096)
def _reaches_only_result(code: types.CodeType, offset: int) -> bool:
    """Whether what the call at `offset` gives can only become part of what `code` returns."""
    if not _NAMESPACES.isdisjoint(code.co_names):
        return False
    instructions = {i.offset: i for i in dis.get_instructions(code)}
    offsets = sorted(instructions)
    after = dict(itertools.pairwise(offsets))
    offset = offsets[bisect.bisect(offsets, offset) - 1]  # in a call of Python code, that of the instruction's cache
    if not instructions[offset].opname.startswith("CALL"):
        return False
    states: dict[int, _State] = {}
    pending: list[tuple[int, _State]] = [(after[offset], ((True,), frozenset()))]
    while pending:
        at, state = pending.pop()
        known = states.get(at)
        joined = state if known is None else _joined(known, state)
        if joined == known:
            continue
        states[at] = joined
        following = _step(instructions[at], joined, after.get(at))
        if following is None:
            return False
        pending += following
        pending += [(target, ((), joined[1])) for start, end, target in covered(code) if start <= at < end]
    return True


def _joined(a: _State, b: _State) -> _State:
    depth = max(len(a[0]), len(b[0]))
    stacks = [(False,) * (depth - len(s)) + s for s in (a[0], b[0])]
    return tuple([x or y for x, y in zip(*stacks, strict=True)]), a[1] | b[1]


def _step(i: dis.Instruction, state: _State, after: int | None) -> list[tuple[int, _State]] | None:
    """What comes after an instruction, by offset; None if it looks at the value, or is not known."""
    stack, names, kind = list(state[0]), state[1], i.opname
    if kind == "RETURN_VALUE":
        return []
    if kind == "FOR_ITER" and sys.version_info < (3, 12):
        if True in _pop(stack, 1):
            return None
        return [(after or 0, ((*stack, False, False), names)), (i.argval, (tuple(stack), names))]
    if "JUMP" in kind:
        return _jumped(i, stack, names, after)
    if kind.startswith(("LOAD_FAST", "STORE_FAST", "DELETE_FAST")):
        names = _local(i, stack, names)
    elif not _operate(i, stack):
        return None
    return [] if kind in _ENDS or after is None else [(after, (tuple(stack), names))]


def _jumped(i: dis.Instruction, stack: list[bool], names: frozenset[str], after: int | None) -> Any:
    """Where a jump leads. The value may be compared with None, which it is not, whatever it is."""
    kind = i.opname
    if kind.startswith("POP_JUMP"):
        if True in _pop(stack, 1) and not kind.endswith("NONE"):
            return None
        return [(target, (tuple(stack), names)) for target in (i.argval, after)]
    return None if "OR_POP" in kind else [(i.argval, (tuple(stack), names))]


def _local(i: dis.Instruction, stack: list[bool], names: frozenset[str]) -> frozenset[str]:
    """Local variables after one or two are read or set; those that are read are on the stack."""
    kind = i.opname
    actions = [part for part in kind.split("_") if part in ("LOAD", "STORE", "DELETE")]
    for action, name in zip(actions, i.argval if isinstance(i.argval, tuple) else (i.argval,), strict=False):
        if action == "LOAD":
            stack.append(name in names)
        elif action == "STORE" and True in _pop(stack, 1):
            names = names | {name}
        else:
            names = names - {name}
    return names


def _operate(i: dis.Instruction, stack: list[bool]) -> bool:
    """Do what another instruction does to the stack; False if it looks at the value, or is not known."""
    kind, arg = i.opname, i.arg or 0
    if kind in ("COPY", "SWAP"):
        stack[:0] = [False] * (arg - len(stack))
        if kind == "COPY":
            stack.append(stack[-arg])
        else:
            stack[-1], stack[-arg] = stack[-arg], stack[-1]
    elif kind in _CONTAINERS:
        held = _pop(stack, _CONTAINERS[kind](arg))
        stack.append(True in held)
        return not (kind == "BUILD_MAP" and True in held[::2])
    elif kind in _EFFECTS:
        taken, given = (n if isinstance(n, int) else n(arg) for n in _EFFECTS[kind])
        if True in _pop(stack, taken) and kind != "POP_TOP":
            return False
        stack += [False] * given
    else:
        return False
    return True


def _pop(stack: list[bool], count: int) -> list[bool]:
    """The topmost entries, taken off; what lies deeper than is known does not hold the value."""
    taken = [stack.pop() if stack else False for _ in range(count)]
    return taken[::-1]
