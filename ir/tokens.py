"""Splits IR text into tokens, each with its place, and reports errors there."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple, NoReturn

from .errors import ParseError

_PATTERN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*)
      | (?P<value>%(?:[0-9]+|(?:[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\\n]|\\.)*")(?:~[0-9]+)?))
      | (?P<number>-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|inf\b))
      | (?P<type>(?:bool|u8|b?f(?:16|32|64)|i(?:8|16|32|64)|c(?:64|128))\[[0-9,]*\](?:@[A-Za-z_]\w*(?::[0-9]+)?)?)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<punctuation>->|//|[=!<>]=|[()\[\]{},:=@+\-*/<>])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """`kind` is value, number, type, word, string, punctuation or end; `start` its offset in the source.

    A type is one token where it is written without spaces, as the printer does.
    """

    kind: str
    text: str
    start: int

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 40 else self.text[:37] + "..."
        return "the end of the text" if self.kind == "end" else repr(shown)


class Tokens:
    """A cursor over the tokens of `source`.

    >>> tokens = Tokens("add(%0)")
    >>> tokens.take("word", "an op").text
    'add'
    >>> tokens.expect(")")
    Traceback (most recent call last):
    jitgrad.ir.errors.ParseError: line 1, column 4: expected ')', found '('
      add(%0)
         ^
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._end = 0  # of what has been read; tokens are made as they are asked for, so that errors come early
        self._ahead: list[Token] = []
        self.current: Token = Token("end", "", 0)  # the token that comes next
        self.current = self._read()

    def peek(self) -> Token:
        """The token behind the next one."""
        if not self._ahead:
            self._ahead.append(self._read())
        return self._ahead[0]

    def at(self, text: str) -> bool:
        """Whether a word or punctuation `text` comes next."""
        token = self.current
        return token.text == text and token.kind in ("word", "punctuation")

    def advance(self) -> Token:
        """Step over the next token (the end stays)."""
        token = self.current
        if token.kind != "end":
            self.current = self._ahead.pop() if self._ahead else self._read()
        return token

    def accept(self, text: str) -> bool:
        """Step over `text` if it comes next."""
        found = self.at(text)
        if found:
            self.advance()
        return found

    def expect(self, text: str) -> Token:
        """Step over `text`, which must come next."""
        if not self.at(text):
            self.fail(f"expected {text!r}, found {self.current}")
        return self.advance()

    def take(self, kind: str, what: str) -> Token:
        """Step over a token of `kind`, which must come next; `what` describes it in the error."""
        if self.current.kind != kind:
            self.fail(f"expected {what}, found {self.current}")
        return self.advance()

    def string(self, what: str) -> str:
        """A quoted string, unescaped."""
        token = self.take("string", what)
        return self.unquote(token.text, token)

    def unquote(self, text: str, token: Token) -> str:
        """The string that the JSON literal `text` stands for."""
        try:
            return str(json.loads(text, strict=False))
        except ValueError:
            self.fail(f"malformed string {token}", token)

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise a `ParseError` at `token`, by default the next one, showing its line."""
        start = (token or self.current).start
        line = self.source.count("\n", 0, start) + 1
        begin = self.source.rfind("\n", 0, start) + 1
        end = self.source.find("\n", start)
        text = self.source[begin : end if end >= 0 else None]
        column = start - begin
        left = max(0, column - 60)
        shown = "".join(c if c.isprintable() else " " for c in text[left : left + 100])
        where = f"\n  {shown}\n  {'':{column - left}}^"
        raise ParseError(f"line {line}, column {column + 1}: {message}{where}") from None

    def _read(self) -> Token:
        while match := _PATTERN.match(self.source, self._end):
            start, self._end = match.span()
            if match.lastgroup != "space":
                return Token(str(match.lastgroup), match.group(), start)
        if self._end < len(self.source):
            self.fail(f"unexpected character {self.source[self._end]!r}", Token("", "", self._end))
        return Token("end", "", self._end)
