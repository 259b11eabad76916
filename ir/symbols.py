"""Symbolic sizes: numbers that are expressions of named dimensions, such as `4*batch` or `(height+1)//2`.

    expression ::= name | number | expression ("+" | "-" | "*" | "//" | "/") expression
                 | ("mod" | "min" | "max" | "pow") "(" expression "," expression ")"
                 | ("sqrt" | "log") "(" expression ")"

`SymbolicInt` and `SymbolicFloat` are numbers that carry such an expression, so that a graph with symbolic shapes and
fields is an ordinary graph at one choice of sizes; `instantiate` gives it at another. Such graphs are for printing,
reading and instantiating: what compiles or caches takes instantiated ones. Expressions are evaluated as Python does,
in the order they are written in, so that numbers come out to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, SupportsFloat, TypeAlias

Real: TypeAlias = "int | float"
MAX_POWER: Final = 64
MAX_SIZE: Final = 2**62

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "/": lambda a, b: a / b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "pow": lambda a, b: _power(a, b),
    "sqrt": math.sqrt,
    "log": math.log,
}
INFIX: Final = {"+": 1, "-": 1, "*": 2, "//": 2, "/": 2}
CALLS: Final = {
    "mod": 2,
    "min": 2,
    "max": 2,
    "pow": 2,
    "sqrt": 1,
    "log": 1,
}  # functions written as calls, and their arity


def _power(a: Real, b: Real) -> Any:
    """`a ** b`, within bounds that keep a hostile file from computing for ever."""
    if isinstance(b, int) and not 0 <= b <= MAX_POWER:
        raise ValueError(f"exponent {b} is not within 0..{MAX_POWER}")
    return a**b


@dataclass(frozen=True, slots=True)
class Expression:
    """`fn` of `args`. A name is `Expression("name", ("batch",))`, a number `Expression("number", (4,))`."""

    fn: str
    args: tuple[Any, ...]

    def at(self, sizes: Mapping[str, int]) -> Real:
        """The number at these sizes.

        >>> (symbol("n") * 4 + 1).at({"n": 3})
        13
        """
        if self.fn == "name":
            return sizes[self.args[0]]
        if self.fn == "number":
            return self.args[0]  # type: ignore[no-any-return]
        value = _FUNCTIONS[self.fn](*[a.at(sizes) for a in self.args])
        if isinstance(value, int) and abs(value) > MAX_SIZE:
            raise ValueError("a size beyond any memory")
        return value  # type: ignore[no-any-return]

    def names(self) -> Iterator[str]:
        """The dimensions it depends on, each as often as it occurs."""
        if self.fn == "name":
            yield self.args[0]
        elif self.fn != "number":
            for a in self.args:
                yield from a.names()

    def __str__(self) -> str:
        return _text(self, 0)

    def __add__(self, other: Any) -> Expression:
        return combine("+", self, as_expression(other))

    def __sub__(self, other: Any) -> Expression:
        return combine("-", self, as_expression(other))

    def __mul__(self, other: Any) -> Expression:
        return combine("*", self, as_expression(other))

    def __floordiv__(self, other: Any) -> Expression:
        return combine("//", self, as_expression(other))

    def __truediv__(self, other: Any) -> Expression:
        return combine("/", self, as_expression(other))


def symbol(name: str) -> Expression:
    """The size of a named dimension."""
    return Expression("name", (name,))


def number(x: Real) -> Expression:
    """A constant."""
    return Expression("number", (x,))


def as_expression(x: Any) -> Expression:
    """An expression, that of a symbolic number, or a constant."""
    if isinstance(x, Expression):
        return x
    found = getattr(x, "expression", None)
    return found if isinstance(found, Expression) else number(x)


def combine(fn: str, *args: Expression) -> Expression:
    """`fn` of expressions, as a polynomial in one order of terms where it is one of integers.

    >>> n = symbol("n")
    >>> str(n + n), str((n + 1) * 4 - n), str((n + 1) // 2 * 2)
    ('2*n', '3*n+4', '2*((n+1)//2)')
    """
    if all(a.fn == "number" for a in args):
        return number(_FUNCTIONS[fn](*[a.args[0] for a in args]))
    if fn in ("+", "-", "*") and all(map(is_integral, args)):
        a, b = map(_terms, args)
        if fn == "*":
            return _polynomial([((*x, *y), p * q) for x, p in a.items() for y, q in b.items()])
        return _polynomial([*a.items(), *[(y, q if fn == "+" else -q) for y, q in b.items()]])
    if fn == "//" and is_integral(args[0]):
        return _quotient(*args)
    return Expression(fn, args)


def is_integral(e: Expression) -> bool:
    """Whether its value is an int by construction."""
    if e.fn == "number":
        return isinstance(e.args[0], int)
    return e.fn == "name" or (e.fn not in ("/", "sqrt", "log") and all(map(is_integral, e.args)))


Terms: TypeAlias = "dict[tuple[Expression, ...], int]"  # coefficients by the factors they belong to


def _terms(e: Expression) -> Terms:
    if e.fn == "number":
        return {(): e.args[0]}
    if e.fn == "*":
        a, b = map(_terms, e.args)
        return _sum([((*x, *y), p * q) for x, p in a.items() for y, q in b.items()])
    if e.fn in ("+", "-"):
        a, b = map(_terms, e.args)
        return _sum([*a.items(), *[(y, q if e.fn == "+" else -q) for y, q in b.items()]])
    return {(e,): 1}


def _sum(terms: list[tuple[tuple[Expression, ...], int]]) -> Terms:
    found: Terms = {}
    for factors, coefficient in terms:
        key = tuple(sorted(factors, key=str))
        found[key] = found.get(key, 0) + coefficient
    return {k: c for k, c in found.items() if c}


def _polynomial(terms: list[tuple[tuple[Expression, ...], int]]) -> Expression:
    found = _sum(terms)
    ordered = sorted(found.items(), key=lambda item: (-len(item[0]), item[1] < 0, [str(f) for f in item[0]]))
    made: Expression | None = None
    for factors, coefficient in ordered:
        if made is None:
            made = _product(factors, coefficient)
        elif coefficient < 0:
            made = Expression("-", (made, _product(factors, -coefficient)))
        else:
            made = Expression("+", (made, _product(factors, coefficient)))
    return number(0) if made is None else made


def _product(factors: tuple[Expression, ...], coefficient: int) -> Expression:
    parts = list(factors) if coefficient == 1 and factors else [number(coefficient), *factors]
    made = parts[0]
    for part in parts[1:]:
        made = Expression("*", (made, part))
    return made


def _quotient(a: Expression, b: Expression) -> Expression:
    """A quotient without a divisor that divides every term."""
    divisor = b.args[0] if b.fn == "number" else None
    if isinstance(divisor, int) and divisor != 0:
        terms = _terms(a)
        if all(c % divisor == 0 for c in terms.values()):
            return _polynomial([(k, c // divisor) for k, c in terms.items()])
    return Expression("//", (a, b))


def _text(e: Expression, binding: int) -> str:
    if e.fn == "name":
        return str(e.args[0])
    if e.fn == "number":
        text = repr(e.args[0])
        return f"({text})" if binding and text.startswith("-") else text
    if e.fn not in INFIX:
        return f"{e.fn}({','.join([_text(a, 0) for a in e.args])})"
    own = INFIX[e.fn]
    text = f"{_text(e.args[0], own)}{e.fn}{_text(e.args[1], own + 1)}"
    return f"({text})" if own < binding else text


class SymbolicInt(int):
    """An integer that is `expression` at the sizes in hand. It prints as its expression."""

    expression: Expression

    def __new__(cls, value: int, expression: Expression) -> SymbolicInt:
        made = super().__new__(cls, value)
        made.expression = expression
        return made

    def __str__(self) -> str:
        return str(self.expression)

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (int(self), self.expression)


class SymbolicFloat(float):
    """A float that is `expression` at the sizes in hand. It prints as its expression."""

    expression: Expression

    def __new__(cls, value: SupportsFloat, expression: Expression) -> SymbolicFloat:
        made = super().__new__(cls, value)
        made.expression = expression
        return made

    def __str__(self) -> str:
        return str(self.expression)

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (float(self), self.expression)


Symbolic = (SymbolicInt, SymbolicFloat)


def symbolic(expression: Expression, sizes: Mapping[str, int]) -> Real:
    """The number that `expression` is at `sizes`, carrying it, unless it is a constant."""
    value = expression.at(sizes)
    if expression.fn == "number":
        return value
    return SymbolicInt(value, expression) if isinstance(value, int) else SymbolicFloat(value, expression)


def is_tracked(*numbers: Real) -> bool:
    """Whether one of the numbers carries an expression. Where it does, a short cut for the value it has now may not be
    taken: at another value the long way would be needed.

    >>> is_tracked(3), is_tracked(3, SymbolicInt(3, symbol("n")))
    (False, True)
    """
    return any(isinstance(n, (SymbolicInt, SymbolicFloat)) for n in numbers)
