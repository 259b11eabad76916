"""The source files that the house rules are checked on, read and parsed once."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"ir": "jitgrad.ir", "codegen": "jitgrad.codegen", "jitgrad": "jitgrad"}
OTHER_FOLDERS = ("tests", "examples", "bench")


@dataclass(frozen=True)
class Source:
    """One Python file; `name` is its path from the root, `module` its dotted name (library files only)."""

    path: Path
    name: str
    module: str

    @cached_property
    def text(self) -> str:
        """The file's text."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree."""
        return ast.parse(self.text, self.name)

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods, nested ones too."""
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]

    def at(self, node: ast.AST, message: str) -> str:
        """A violation's text: `file:line: message`."""
        return f"{self.name}:{getattr(node, 'lineno', 1)}: {message}"


def _read(folder: str) -> Iterator[Source]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        relative = path.relative_to(ROOT / folder).with_suffix("")
        parts = [PACKAGES.get(folder, folder), *(part for part in relative.parts if part != "__init__")]
        yield Source(path, path.relative_to(ROOT).as_posix(), ".".join(parts))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def library() -> list[Source]:
    """The files of the three packages."""
    return [source for folder in PACKAGES for source in _read(folder)]


@pytest.fixture(scope="session")
def everything(library: list[Source]) -> list[Source]:
    """The library's files, and those of the tests, examples and benchmarks."""
    return library + [source for folder in OTHER_FOLDERS for source in _read(folder)]


@pytest.fixture(scope="session")
def report() -> Callable[[list[str]], None]:
    """Fails with one line for each violation, if there are any."""

    def check(violations: list[str]) -> None:
        if violations:
            pytest.fail("\n".join(dict.fromkeys(violations)), pytrace=False)

    return check
