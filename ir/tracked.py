"""Numbers that remember how they were made, so that what was made of them can be made again for others.

    recording = Recording()
    n = recording.symbol(8)
    f(n * 4)                      any code that computes with numbers
    recording.at([12])            the numbers at another size, or None where `f` might have done something else

A `Tracked` number is no `int`: all that code can learn of it goes through its methods. Arithmetic gives tracked numbers
again. Where code goes by its value (a comparison, a truth value, a use as an index), the outcome is noted, and is a
condition of what was recorded. So whatever the code decided it decides again, at all numbers for which `at` answers.

Integers are polynomials in one normal form: equal ones are one object, as equal numbers would be in tables. A tracked
number is never equal to a plain one in a table, so that tables answer "unknown" and never with another number's entry.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

Terms: TypeAlias = "dict[tuple[int, ...], int]"  # coefficients by the numbers of the factors they belong to
T = TypeVar("T")
_PLAIN: Final = frozenset({int, float, str, bool})


class Changed(Exception):
    """What was recorded might have gone another way at these numbers."""


class Recording:
    """A list of instructions, and the conditions under which they are what code would do."""

    def __init__(self) -> None:
        self.is_open = True
        self.symbols = 0
        self._code: list[tuple[Callable[..., Any], Any]] = []  # makes registers, from symbols on, in order
        self._conditions: dict[Any, bool] = {}
        self._decisions: dict[Any, Any] = {}
        self._made: dict[Hashable, Tracked] = {}
        self._atoms: dict[int, Tracked] = {}
        self._count = 0

    # recording ----------------------------------------------------------------------------------------------

    def symbol(self, value: Any) -> Tracked:
        """A number that `at` will be given, in the order in which symbols are made."""
        assert not self._code, "symbols come before what is made of them"
        self.symbols += 1
        return self._atom(value, ("symbol", self._count))

    def apply(self, fn: Callable[..., Any], value: Any, *args: Any) -> Tracked:
        """The number that `fn` gives for `args` each time anew, `value` now; equal calls are made once."""
        key = (fn, tuple([x.hex() if x.__class__ is float else x for x in args]))  # -0.0 is not 0.0
        found = self._made.get(key)
        if found is None:
            self._code.append((fn, args))
            found = self._made[key] = self._atom(value, key)
        return found

    def each_time(self, fn: Callable[..., Any], value: Any, *args: Any) -> Tracked:
        """The same for a function with a state of its own, whose calls all are made, in order."""
        self._code.append((fn, args))
        return self._atom(value, ("call", self._count))

    def require(self, relation: Callable[[Any, Any], bool], a: Any, b: Any, holds: bool) -> bool:
        """Whether a relation holds, which it has to at other numbers as well."""
        if self.is_open:
            self._conditions[relation, a, b] = holds
        return holds

    def decide(self, fn: Callable[..., Any], *args: Any) -> Any:
        """What `fn` gives for `args`: the same at other numbers, if what was recorded is to be used."""
        found = fn(*[_now(x) for x in args])
        self._decisions[fn, args] = found
        return found

    def _atom(self, value: Any, key: Hashable) -> Tracked:
        is_integer = isinstance(value, int)
        made = self._number(value, key, {(self._count,): 1} if is_integer else None)
        if is_integer:
            self._atoms[made.register] = made
        return made

    def _number(self, value: Any, key: Hashable, terms: Terms | None) -> Tracked:
        made = Tracked()
        made.value, made.recording, made.register, made.terms = value, self, self._count, terms
        made.hash = hash((id(self), self._count))
        self._count += 1
        if terms is not None:
            self._made.setdefault(_normal(terms), made)
        return made

    def binary(self, fn: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        """`fn(a, b)`; a plain number where it is the same at all sizes."""
        terms = _polynomial(fn, a, b)
        if terms is None:
            if fn in (operator.floordiv, operator.mod):
                return self._divided(fn, a, b)
            return self.apply(fn, fn(_now(a), _now(b)), a, b)
        if not terms:
            return 0
        if len(terms) == 1 and () in terms:
            return terms[()]
        key = _normal(terms)
        found = self._made.get(key)
        if found is None:
            self._code.append((fn, (a, b)))
            found = self._number(fn(_now(a), _now(b)), key, terms)
        return found

    def _divided(self, fn: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        quotient = _quotient(_terms(a), _terms(b))
        if quotient is None:
            return self.apply(fn, fn(_now(a), _now(b)), a, b)
        if isinstance(b, Tracked) and b == 0:
            raise ZeroDivisionError
        if fn is operator.mod:
            return 0
        return self._of_terms(quotient)

    def _of_terms(self, terms: Terms) -> Any:
        """A polynomial, made of the atoms that it holds."""
        total: Any = 0
        for factors, coefficient in terms.items():
            part: Any = coefficient
            for f in factors:
                part = part * self._atoms[f]
            total = total + part
        return total

    # at other numbers ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing is recorded any more; numbers compare as the plain ones that they are."""
        self.is_open = False

    def at(self, symbols: Sequence[Any]) -> list[Any]:
        """All numbers by register, where `symbols` are the first. Raises `Changed` where a condition fails.

        Where one does, what was recorded meets numbers that it was not made for, and may raise anything.
        """
        registers = [*symbols]
        look_up = Lookup(registers)
        try:
            for fn, args in self._code:
                registers.append(fn(*[registers[x.register] if x.__class__ is Tracked else look_up(x) for x in args]))
            for (relation, a, b), holds in self._conditions.items():
                a = registers[a.register] if a.__class__ is Tracked else a
                b = registers[b.register] if b.__class__ is Tracked else b
                if relation(a, b) is not holds:
                    raise Changed
            for (fn, args), found in self._decisions.items():
                if fn(*map(look_up, args)) != found:
                    raise Changed
        except Exception as error:
            raise Changed from error
        return registers


def _polynomial(fn: Callable[[Any, Any], Any], a: Any, b: Any) -> Terms | None:
    """Sums, differences and products of integers."""
    if fn not in (operator.add, operator.sub, operator.mul):
        return None
    x, y = _terms(a), _terms(b)
    if x is None or y is None:
        return None
    made: Terms = {}
    if fn is operator.mul:
        for p, q in itertools.product(x, y):
            key = tuple(sorted((*p, *q)))
            made[key] = made.get(key, 0) + x[p] * y[q]
    else:
        sign = 1 if fn is operator.add else -1
        made.update(x)
        for q, c in y.items():
            made[q] = made.get(q, 0) + sign * c
    return {k: c for k, c in made.items() if c}


def _terms(x: Any) -> Terms | None:
    if isinstance(x, Tracked):
        return x.terms
    if isinstance(x, int):
        return {(): int(x)} if x else {}
    return None


def _normal(terms: Terms) -> Hashable:
    return frozenset(terms.items())


def _quotient(a: Terms | None, b: Terms | None) -> Terms | None:
    """`a // b` where that is exact for any numbers: `b` is one term that divides all those of `a`."""
    if a is None or b is None or len(b) != 1:
        return None
    ((divisor, by),) = b.items()
    made: Terms = {}
    for factors, c in a.items():
        rest = list(factors)
        for f in divisor:
            if f not in rest:
                return None
            rest.remove(f)
        if c % by:
            return None
        made[tuple(rest)] = c // by
    return made


class Tracked:
    """A number of a `Recording`."""

    __slots__ = ("__weakref__", "hash", "recording", "register", "terms", "value")
    value: Any
    recording: Recording
    register: int
    terms: Terms | None  # of an integer
    hash: int

    def __hash__(self) -> int:
        return self.hash

    def __repr__(self) -> str:
        return f"<{self.value}>"

    def __reduce__(self) -> Any:
        raise TypeError("a tracked number belongs to its recording")

    # what code may learn of it

    def _compare(self, relation: Callable[[Any, Any], bool], other: Any) -> Any:
        if not isinstance(other, int | float | Tracked):
            return NotImplemented
        if isinstance(other, Tracked) and other.recording is not self.recording:
            return NotImplemented
        holds = relation(self.value, _now(other))
        difference = _polynomial(operator.sub, self, other)
        if difference is not None and (not difference or difference.keys() == {()}):
            return holds
        return self.recording.require(relation, self, other, holds)

    def __eq__(self, other: object) -> Any:
        return self is other or self._compare(operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return self is not other and self._compare(operator.ne, other)

    def __lt__(self, other: Any) -> Any:
        return self._compare(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._compare(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(operator.ge, other)

    def __bool__(self) -> bool:
        return self.recording.require(operator.ne, self, 0, self.value != 0)

    def __index__(self) -> int:
        if self.terms is None:
            raise TypeError("a tracked float is no index")
        self.recording.require(operator.eq, self, self.value, True)
        return int(self.value)

    def __int__(self) -> int:
        if self.terms is None:
            return int(self.recording.decide(int, self))
        return self.__index__()

    def __float__(self) -> float:
        self.recording.require(operator.eq, self, self.value, True)
        return float(self.value)

    # arithmetic

    def __add__(self, other: Any) -> Any:
        return self._apply(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._apply(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._apply(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._apply(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._apply(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._apply(operator.mul, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._apply(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._apply(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return self._apply(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._apply(operator.mod, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._apply(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._apply(operator.truediv, other, self)

    def __pow__(self, other: Any) -> Any:
        return self._apply(operator.pow, self, other)

    def __neg__(self) -> Any:
        return self._apply(operator.mul, self, -1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.recording.apply(abs, abs(self.value), self)

    def __ceil__(self) -> Any:
        return self if self.terms is not None else self.recording.apply(math.ceil, math.ceil(self.value), self)

    def __floor__(self) -> Any:
        return self if self.terms is not None else self.recording.apply(math.floor, math.floor(self.value), self)

    def bit_length(self) -> Any:
        """That of the integer."""
        return self.recording.apply(int.bit_length, int.bit_length(self.value), self)

    def _apply(self, fn: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
        if not (isinstance(a, int | float | Tracked) and isinstance(b, int | float | Tracked)):
            return NotImplemented
        return self.recording.binary(fn, a, b)


class Lookup:
    """Replaces tracked numbers within fields, types and ops by plain ones: those of `registers`, or those of now."""

    def __init__(self, registers: Sequence[Any] | None) -> None:
        self.registers = registers
        self._known: dict[Any, Any] = {}

    def __call__(self, x: Any) -> Any:
        """`x` without tracked numbers; itself where it has none."""
        cls = x.__class__
        if cls is Tracked:
            return x.value if self.registers is None else self.registers[x.register]
        if cls in _PLAIN:
            return x
        if cls is tuple:
            made = [y if y.__class__ in _PLAIN else self(y) for y in x]
            return x if all(map(operator.is_, made, x)) else tuple(made)
        if hasattr(x, "with_shape"):  # a type
            shape = self(x.shape)
            return x if shape is x.shape else x.with_shape(shape)
        if hasattr(x, "attributes"):  # an op
            found = self._known.get(x)
            if found is None:
                found = self._known[x] = self._op(x)
            return found
        return self._graph(x) if hasattr(x, "nodes") else x

    def _graph(self, graph: Any) -> Any:
        """A graph among an op's fields."""
        env = {v: type(v)(self(v.type), name=v.name) for v in graph.inputs}
        nodes = []
        for node in graph.nodes:
            types = [self(v.type) for v in node.results]
            made = type(node)(self(node.op), [env[v] for v in node.operands], types, node.location, node.scope)
            env.update(zip(node.results, made.results, strict=True))
            nodes.append(made)
        return type(graph)(list(env.values())[: len(graph.inputs)], nodes, [env[v] for v in graph.outputs])

    def _op(self, op: Any) -> Any:
        old = op.attributes()
        new = {k: self(v) for k, v in old.items()}
        return op if all(new[k] is v for k, v in old.items()) else type(op)(**new)


def _now(x: Any) -> Any:
    """The plain value of a number, a field, a type or an op."""
    if x.__class__ is Tracked:
        return x.value
    return x if x.__class__ is int or x.__class__ is float else Lookup(None)(x)


def _recording_of(x: Any) -> Recording | None:
    """The recording of a tracked number in `x`."""
    if x.__class__ is Tracked:
        return x.recording
    parts: Any = ()
    if x.__class__ is tuple:
        parts = x
    elif hasattr(x, "with_shape"):
        parts = x.shape
    elif hasattr(x, "attributes"):
        parts = x.attributes().values()
    return next((found for y in parts if (found := _recording_of(y)) is not None), None)


def always_equal(a: Any, b: Any) -> bool:
    """Whether two numbers, or tuples of them, are equal at all sizes: for what is right either way, and only better so.

    Unlike `==` it is no condition of what is recorded. Tracked numbers that happen to be equal now are not.

    >>> always_equal((2, 3), (2, 3))
    True
    """
    if a.__class__ is tuple and b.__class__ is tuple:
        return len(a) == len(b) and all(map(always_equal, a, b))
    return a is b or (a.__class__ is not Tracked and b.__class__ is not Tracked and bool(a == b))


def now(number: Any) -> Any:
    """A number as it is now, for choices that are right whatever it is at other sizes: no condition follows.

    >>> now(3)
    3
    """
    return number.value if number.__class__ is Tracked else number


def happens_to_be(a: Any, b: Any) -> bool:
    """Whether two numbers are equal now, which is a condition only if they are: for shorter ways, where the longer one
    is right at all numbers.

    >>> happens_to_be(1, 1)
    True
    """
    return bool(now(a) == now(b) and a == b)


def computed(fn: Callable[..., T], *args: Any) -> T:
    """`fn(*args)`, a number, computed anew at other numbers; for functions that go by sizes in many steps.

    >>> computed(max, 3, 4)
    4
    """
    recording = next((found for x in args if (found := _recording_of(x)) is not None), None)
    if recording is None:
        return fn(*args)
    return cast("T", recording.apply(fn, fn(*map(_now, args)), *args))


def decided(fn: Callable[..., Any], *args: Any) -> Any:
    """`fn(*args)`, a choice that has to be the same at other numbers.

    >>> decided(divmod, 7, 2)
    (3, 1)
    """
    recording = next((found for x in args if (found := _recording_of(x)) is not None), None)
    return fn(*args) if recording is None else recording.decide(fn, *args)
