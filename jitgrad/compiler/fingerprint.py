"""What a compiled function's Python surroundings looked like: compared at each call, never assumed.

A fingerprint covers what the function can reach through its closure, the globals it names, the functions and methods
it may call in turn, and the objects it is given: numbers and strings by value, tensors by identity, modules and
optimizers by their change counter, containers, iterators and random generators by content, other objects, classes
and Python modules by those attributes that the code reached names.
"""

from __future__ import annotations

import functools
import marshal
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from jitgrad.ir.dtypes import DType

from ..epoch import Counted, WatchedDict, WatchedList
from ..tensor import Tensor
from .code import Reads, is_library, is_standard, reached, reads_of

_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
SCALARS = frozenset(_SCALARS)
_FIXED = (*_SCALARS, DType, Tensor, type, types.ModuleType, np.generic, Counted, WatchedDict, WatchedList,
          types.BuiltinFunctionType)  # fmt: skip
_LONG = 64
EMPTY: Final = object()
_HASHED_BYTES = 65_536  # larger arrays that become tensors are data: read anew at each call, and not compared
HIDDEN = frozenset({"__wrapped__", "__doc__", "__module__", "__dict__", "__weakref__", "__annotations__"})


class StandsForFunction:
    """Base of objects that run a function `_f` and keep notes of their own, which are no part of a fingerprint."""

    _f: Callable[..., Any]


class Same:
    """Compares by identity and keeps its object alive."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.x is other.x

    def __hash__(self) -> int:
        return id(self.x)

    def __repr__(self) -> str:
        return f"{type(self.x).__name__} object"


def fingerprint(x: Any, reads: Reads | None = None) -> Hashable:
    """A hashable that changes when `x` does; it holds references, so that identities stay valid.

    `reads` says which attributes count; without it, for a function those that its code reads, else all.
    """
    kind = type(x)
    if kind in SCALARS:
        return (kind, x) if kind is not float else (kind, x.hex())
    if reads is None:
        reads = reads_of(x) if isinstance(x, CALLABLE) else Reads(all_names=True)
    while True:
        known = len(reads.codes), reads.all_names
        found = _Walk(reads).of(x)
        if (len(reads.codes), reads.all_names) == known:  # otherwise attributes were passed over that count
            return found


class _Walk:
    """One fingerprint in the making. What is met again is told by its number."""

    __slots__ = ("reads", "seen")

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.seen: dict[int, tuple[int, Any]] = {}

    def of(self, x: Any) -> Hashable:
        """The fingerprint of `x`."""
        kind = type(x)
        if kind in SCALARS:
            return (kind, x) if kind is not float else (kind, x.hex())
        before = self.seen.get(id(x))
        if before is not None:
            return before[0]
        self.seen[id(x)] = (len(self.seen), x)
        return _rule(kind)(self, x)

    def all(self, items: Any) -> tuple[Hashable, ...]:
        """Of each of them."""
        return tuple([self.of(v) for v in items])

    def pairs(self, items: Any) -> tuple[Any, ...]:
        """Of each value, with its name."""
        return tuple([(n, self.of(v)) for n, v in items])

    # code -------------------------------------------------------------------------------------------------

    def function(self, f: types.FunctionType) -> Hashable:
        if is_library(f.__module__) or is_standard(f.__module__):
            return Same(f)
        self.reads.add(f.__code__)
        found = self.pairs(reached(f))
        if f.__dict__:
            found += self.pairs([(n, v) for n, v in vars(f).items() if n not in HIDDEN])
        if f.__defaults__ or f.__kwdefaults__:
            found += (("defaults", self.all((f.__defaults__, f.__kwdefaults__))),)
        return (Same(f), Same(f.__code__), found)

    def method(self, m: types.MethodType) -> Hashable:
        return (self.of(m.__func__), self.of(m.__self__))

    def builtin(self, f: types.BuiltinFunctionType) -> Hashable:
        owner = f.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return Same(f)
        return (types.BuiltinFunctionType, f.__name__, self.of(owner))

    def partial(self, p: functools.partial[Any]) -> Hashable:
        return (Same(p), self.of(p.func), self.of(p.args), self.of(p.keywords))

    def cached(self, f: Any) -> Hashable:
        return (Same(f), self.of(f.__wrapped__))

    def same(self, x: Any) -> Hashable:
        return Same(x)

    def stand_in(self, x: StandsForFunction) -> Hashable:
        return (Same(x), self.of(x._f))

    def python_module(self, m: types.ModuleType) -> Hashable:
        """The attributes of a module that code names; of the standard library's, objects with state alone."""
        if m is np:
            return (Same(m), self.of(np.random.mtrand._rand)) if self.reads.has("random") else Same(m)
        if m is sys or is_library(m.__name__):
            return Same(m)
        namespace = vars(m)
        chosen = [(n, namespace[n]) for n in self.reads.names if n in namespace]
        if is_standard(m.__name__):
            chosen = [(n, v) for n, v in chosen if has_state(v)]
        return (Same(m), self.pairs(chosen))

    def cls(self, c: type) -> Hashable:
        """A user's class: what code names of it and its bases, and methods that operators call."""
        return (Same(c), self.pairs(named_of_class(c, self.reads))) if users(c) else Same(c)

    # data -------------------------------------------------------------------------------------------------

    def tensor(self, t: Tensor) -> Hashable:
        attributes = t.__dict__
        return (Same(t), self.pairs(attributes.items())) if attributes else Same(t)

    def array(self, a: np.ndarray[Any, Any]) -> Hashable:
        is_data = a.nbytes > _HASHED_BYTES and self.reads.is_data(a)
        return (Same(a), a.shape, a.dtype, None if is_data else hash(a.tobytes()))

    def sequence(self, items: Any) -> Hashable:
        kind = type(items)
        return (kind, len(items), _long(items) or self.all(items), self._extra(items, kind))

    def set(self, items: Any) -> Hashable:
        return (type(items), frozenset(self.all(items)))

    def mapping(self, items: dict[Any, Any]) -> Hashable:
        kind = type(items)
        content = _long(items) or tuple([(_name(k), self.of(v)) for k, v in items.items()])
        return (kind, len(items), content, self._extra(items, kind))

    def _extra(self, x: Any, kind: type) -> Hashable:
        """What instances of a user's container class hold beside their items."""
        if not kind.__flags__ & HEAP or is_standard(kind.__module__):
            return None
        return (self.pairs(self.reads.among(getattr(x, "__dict__", {}))), self.of(kind))

    def context_variable(self, x: Any) -> Hashable:
        return (Same(x), self.of(x.get(EMPTY)))

    def logger(self, x: Any) -> Hashable:
        return (Same(x), x.getEffectiveLevel(), x.disabled, x.manager.disable)

    def getter(self, x: Any) -> Hashable:
        """An `attrgetter` or `methodcaller`, which read what no code names."""
        self.reads.all_names = True
        return (Same(x), self.of(x.__reduce__()[1:]))

    def raw_bytes(self, x: Any) -> Hashable:
        return (Same(x), hash(bytes(x)))

    def counted(self, x: Counted) -> Hashable:
        """A module or optimizer: its counter, and what can change inside without being set."""
        if follows_from_its_epoch(x):
            return (Same(x), x._epoch)
        inside = open_values(x)
        return (Same(x), x._epoch, self.pairs([(n, v) for n, v in inside if self.reads.has(n)]), self.of(type(x)))

    def generator(self, g: types.GeneratorType[Any, Any, Any]) -> Hashable:
        frame = g.gi_frame
        return (Same(g), None if frame is None else (frame.f_lasti, self.of(dict(frame.f_locals))))

    def python_random(self, r: Any) -> Hashable:
        return (Same(r), hash(r.getstate()))

    def numpy_random(self, r: Any) -> Hashable:
        bits = getattr(r, "bit_generator", r)
        state = r.get_state(legacy=False) if isinstance(r, np.random.RandomState) else bits.state
        return (Same(r), repr(_flat(state)))

    def object(self, x: Any) -> Hashable:
        """Any other: attributes and slots that code names, and its class; the state of an iterator."""
        kind = type(x)
        if type(getattr(kind, "__next__", None)) is types.WrapperDescriptorType:
            return (Same(x), self._iterator(x))
        if not kind.__flags__ & HEAP:
            attributes = getattr(x, "__dict__", None)  # a namespace's, or an exception's
            return Same(x) if attributes is None else (Same(x), self.pairs(self.reads.among(attributes)))
        if is_library(kind.__module__):
            return (Same(x), self.pairs(vars(x).items()) if hasattr(x, "__dict__") else None)
        if is_standard(kind.__module__) and isinstance(x, Mapping):
            return (Same(x), self.mapping(dict(x)))
        own = getattr(x, "__dict__", {})
        if uses_library(kind):
            return (Same(x), tuple([(n, self._part(v)) for n, v in own.items()]), self.of(kind))
        attributes = list(self.reads.among(own))
        attributes += [(s.__name__, value) for s in slots_of(kind, self.reads) if (value := held(s, x)) is not EMPTY]
        return (Same(x), self.pairs(attributes), self.of(kind))

    def _part(self, x: Any) -> Hashable:
        """An attribute of an object whose code is not read: a library's own parts are told by identity."""
        kind = type(x)
        return Same(x) if kind.__flags__ & HEAP and is_standard(kind.__module__) else self.of(x)

    def _iterator(self, x: Any) -> Hashable:
        """Where a built-in iterator stands, as pickling would have it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on: itertools will pickle no longer
            try:
                return self.all(x.__reduce__()[1:])
            except TypeError:
                return None


HEAP: Final = 1 << 9  # flag of classes made by Python code
# Modules whose classes add nothing that changes behind the names that users write, or what is noticed as an effect.
_WITHOUT_STATE = frozenset({
    "abc", "argparse", "collections.abc", "dataclasses", "enum", "fractions", "functools", "logging", "numbers",
    "pathlib", "typing", "uuid",
})  # fmt: skip
_STATELESS = (type, types.ModuleType)
CALLABLE = (types.FunctionType, types.MethodType, StandsForFunction)
_RULES: dict[type, Callable[[_Walk, Any], Hashable]] = {
    types.FunctionType: _Walk.function,
    Tensor: _Walk.tensor,
    Counted: _Walk.counted,
    StandsForFunction: _Walk.stand_in,
    types.MethodType: _Walk.method,
    types.BuiltinFunctionType: _Walk.builtin,
    functools.partial: _Walk.partial,
    type(functools.lru_cache(len)): _Walk.cached,
    DType: _Walk.same,
    types.ModuleType: _Walk.python_module,
    type: _Walk.cls,
    dict: _Walk.mapping,
    list: _Walk.sequence,
    tuple: _Walk.sequence,
    deque: _Walk.sequence,
    set: _Walk.set,
    frozenset: _Walk.set,
    bytearray: _Walk.raw_bytes,
    memoryview: _Walk.raw_bytes,
    np.ndarray: _Walk.array,
    types.GeneratorType: _Walk.generator,
    types.MappingProxyType: _Walk.mapping,
    type({}.keys()): _Walk.sequence,
    type({}.values()): _Walk.sequence,
    type({}.items()): _Walk.sequence,
}
_RULES_BY_NAME: dict[str, Callable[[_Walk, Any], Hashable]] = {  # classes of modules that need not be loaded
    "_contextvars.ContextVar": _Walk.context_variable,
    "logging.Logger": _Walk.logger,
    "operator.attrgetter": _Walk.getter,
    "operator.methodcaller": _Walk.getter,
    "random.Random": _Walk.python_random,
    "numpy.random._generator.Generator": _Walk.numpy_random,
    "numpy.random.mtrand.RandomState": _Walk.numpy_random,
    "numpy.random.bit_generator.BitGenerator": _Walk.numpy_random,
}


def users(c: type) -> tuple[type, ...]:
    """The user's classes among `c` and its bases, outermost first."""
    return _users(c.__mro__)  # bases may become others


@functools.lru_cache(4096)
def _users(classes: tuple[type, ...]) -> tuple[type, ...]:
    return tuple([b for b in reversed(classes) if not is_library(b.__module__) and not is_standard(b.__module__)])


@functools.lru_cache(4096)
def uses_library(c: type) -> bool:
    """Whether instances may have attributes that code of the standard library or an installed one reads and sets."""
    others = [b for b in c.__mro__ if b.__flags__ & HEAP and is_standard(b.__module__)]
    return any(b.__module__ not in _WITHOUT_STATE for b in others)


def slots_of(c: type, reads: Reads) -> list[types.MemberDescriptorType]:
    """What describes the slots that code names of instances of a class."""
    found = [v for base in c.__mro__ if base is not object for _, v in reads.among(vars(base))]
    return [v for v in found if type(v) is types.MemberDescriptorType]


def held(slot: types.MemberDescriptorType, x: Any) -> Any:
    """What a slot of an object holds; `EMPTY` if there is nothing in it."""
    try:
        return slot.__get__(x)
    except AttributeError:
        return EMPTY


def named_of_class(c: type, reads: Reads) -> list[tuple[str, Any]]:
    """What code names of a user's class and its bases, and methods that operators call; with `super`, of each."""
    found: dict[Any, Any] = {}
    of_each = "super" in reads.mentioned
    for base in users(c):
        named = dict(reads.among(vars(base)))
        named.update((n, v) for n, v in vars(base).items() if n.startswith("__") and function_of(v) is not None)
        found.update(((n, base) if of_each else n, (n, v)) for n, v in named.items() if n not in HIDDEN)
    return [(n, v if (f := function_of(v)) is None else f) for n, v in found.values()]


@functools.lru_cache(4096)
def _rule(kind: type) -> Callable[[_Walk, Any], Hashable]:
    found = _RULES.get(kind) or next((r for t, r in _RULES.items() if issubclass(kind, t)), None)
    names = (f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__)
    return found or next((_RULES_BY_NAME[n] for n in names if n in _RULES_BY_NAME), _Walk.object)


def rule_of(kind: type) -> str:
    """What objects of a class are looked at as: the name of a rule."""
    return _rule(kind).__name__


def follows_from_its_epoch(x: Counted) -> bool:
    """Whether the fingerprint of a module or optimizer is its counter alone."""
    return not open_values(x) and not users(type(x))


def _long(items: Any) -> Hashable:
    """Of many numbers and strings: their bytes. None for few, and for others."""
    if len(items) <= _LONG:
        return None
    try:
        return hash(marshal.dumps(items, 2))
    except ValueError:
        return None


def _flat(state: Any) -> Any:
    if isinstance(state, dict):
        return [(k, _flat(v)) for k, v in state.items()]
    return hash(state.tobytes()) if isinstance(state, np.ndarray) else state


def _name(key: Any) -> Hashable:
    return key if isinstance(key, _SCALARS) else Same(key)


def has_state(value: Any) -> bool:
    """Whether this is neither a class or module, nor a function without an object whose state it uses."""
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is not None and not isinstance(value.__self__, types.ModuleType)
    return not isinstance(value, (*_STATELESS, types.FunctionType))


def function_of(value: Any) -> types.FunctionType | None:
    """The function behind a method, a property or a wrapped function."""
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


def is_fixed(value: Any) -> bool:
    """Whether a value can only change by being set anew, or has a counter of its own."""
    if isinstance(value, tuple):
        return all(map(is_fixed, value))
    return isinstance(value, _FIXED) or (isinstance(value, types.FunctionType) and not reached(value))


def open_values(x: Counted) -> list[tuple[str, Any]]:
    """Attributes of `x`, and of modules inside it, that can change without being set; found once per epoch."""
    state = x.__dict__
    found = state.get("_open_values")
    if found is None or found[0] != x._epoch:
        values = []
        for part in x.modules() if hasattr(x, "modules") else (x,):
            values += [(n, v) for n, v in vars(part).items() if not n.startswith("_") and not is_fixed(v)]
        found = state["_open_values"] = (x._epoch, values)
    return found[1]  # type: ignore[no-any-return]


def tensors_in(found: Any) -> Iterator[Tensor]:
    """The tensors that a fingerprint names."""
    stack = [found]
    while stack:
        x = stack.pop()
        if isinstance(x, tuple):
            stack.extend(x)
        elif isinstance(x, Same) and isinstance(x.x, Tensor):
            yield x.x
