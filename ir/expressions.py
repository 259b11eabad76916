"""Reads expressions of symbolic sizes from tokens (the grammar is in `ir.symbols`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from .symbols import CALLS, INFIX, Expression, number, symbol
from .tokens import Tokens

MAX_DEPTH: Final = 32
MAX_PARTS: Final = 1000
MAX_DIGITS: Final = 400


class ExpressionReader:
    """Reads one expression from `tokens`; its names must be among `names`."""

    def __init__(self, tokens: Tokens, names: Collection[str]) -> None:
        self.tokens = tokens
        self.names = names
        self._depth = 0
        self._parts = 0

    def expression(self, binding: int = 0) -> Expression:
        """The expression that comes next, as far as its operators bind more tightly than `binding`."""
        tokens = self.tokens
        self._depth += 1
        if self._depth > MAX_DEPTH:
            tokens.fail("nested too deeply")
        made = self._operators(self._operand(), binding)
        self._depth -= 1
        return made

    def _operators(self, made: Expression, binding: int) -> Expression:
        """`made` with the operators behind it that bind more tightly than `binding`."""
        tokens = self.tokens
        while True:
            token = tokens.current
            if token.kind == "number" and token.text.startswith("-") and binding < INFIX["-"]:  # `n-1` is two tokens
                tokens.advance()
                right = self._operators(self._number(token.text[1:]), INFIX["-"])
                made = Expression("-", (made, right))
            elif token.kind == "punctuation" and INFIX.get(token.text, 0) > binding:
                tokens.advance()
                made = Expression(token.text, (made, self.expression(INFIX[token.text])))
            else:
                return made

    def _operand(self) -> Expression:
        tokens, token = self.tokens, self.tokens.current
        self._parts += 1
        if self._parts > MAX_PARTS:
            tokens.fail("an expression of too many parts")
        if tokens.accept("("):
            made = self.expression()
            tokens.expect(")")
            return made
        if token.kind == "number":
            tokens.advance()
            return self._number(token.text)
        if token.kind == "word" and token.text in CALLS:
            return self._call(token.text)
        name = tokens.take("word", "a number or the name of a dimension")
        if name.text not in self.names:
            tokens.fail(f"there is no dimension called {name}", name)
        return symbol(name.text)

    def _call(self, fn: str) -> Expression:
        tokens = self.tokens
        tokens.advance()
        tokens.expect("(")
        args = [self.expression()]
        while len(args) < CALLS[fn]:
            tokens.expect(",")
            args.append(self.expression())
        tokens.expect(")")
        return Expression(fn, tuple(args))

    def _number(self, text: str) -> Expression:
        if len(text) > MAX_DIGITS:
            self.tokens.fail("number too long")
        return number(int(text) if text.lstrip("-").isdigit() else float(text))
