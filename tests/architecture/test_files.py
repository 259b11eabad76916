"""House rules on files: their size, their names, their words; and that each of them is in the wheel."""

import ast
import importlib
import re
import runpy
from pathlib import Path

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 40
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "misc", "common"}
PYTORCH_NAMES = ("jitgrad/nn/modules/utils/", "jitgrad/utils/", "jitgrad/nn/utils/")  # what users of PyTorch import
FOLDERS = {"jitgrad": "jitgrad", "jitgrad.ir": "ir", "jitgrad.codegen": "codegen"}
CODE_FOLDERS = ("ir", "codegen", "jitgrad", "tests", "examples", "bench")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".yaml", ".txt", ".cfg", ""}

# Spelled with a class of one letter, so that this file does not contain what it forbids.
BANNED = {
    r"(?<![\w.])/(?:[h]ome|[r]oot|[w]ork|[U]sers|[o]pt)/\w": "a path of one machine",
    r"\b(?:[F]IXME|[X]XX|[H]ACK)\b": "mend it, or say why not in a comment",
    r"\b[T]ODO\b(?!\([^)]+\)|: \w)": "unfinished work says its reason after a colon",
    r"^(?:<<<<<<<|>>>>>>>) ": "a merge conflict",
}


def test_files_are_short(everything, report):
    report(
        [
            f"{source.name}:1: {size} lines (at most {MAX_FILE_LINES})"
            for source in everything
            if (size := source.text.count("\n")) > MAX_FILE_LINES
        ]
    )


def test_functions_are_short(library, report):
    report(
        [
            source.at(function, f"{function.name} has {size} lines without its docstring (under 40)")
            for source in library
            for function in source.functions
            if (size := _body_lines(function)) >= MAX_FUNCTION_LINES
        ]
    )


def _body_lines(function):
    """The function's lines, from `def` on, without its docstring."""
    docstring = ast.get_docstring(function, clean=False)
    return _lines(function) - (_lines(function.body[0]) if docstring is not None else 0)


def _lines(node):
    return node.end_lineno - node.lineno + 1


def test_names_tell_what_is_inside(everything, report):
    report(
        [
            f"{source.name}:1: a file's name says what is inside"
            for source in everything
            if EMPTY_NAMES.intersection(Path(_own_name(source.name)).with_suffix("").parts)
        ]
    )


def _own_name(name):
    """The name without a folder that is called as in PyTorch."""
    return next((name.removeprefix(prefix) for prefix in PYTORCH_NAMES if name.startswith(prefix)), name)


def test_no_banned_words(root, report):
    report(
        [
            f"{path.relative_to(root)}:{number}: {reason}: {line.strip()[:80]}"
            for path in _text_files(root)
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
            for pattern, reason in BANNED.items()
            if re.search(pattern, line)
        ]
    )


def _text_files(root):
    """The text files of the root, of `.ci`, and of the code's folders at any depth."""
    flat = [path for folder in (".", ".ci") for path in (root / folder).iterdir()]
    deep = [path for folder in CODE_FOLDERS for path in (root / folder).rglob("*")]
    return [path for path in flat + deep if path.is_file() and path.suffix in TEXT_SUFFIXES]


def test_every_folder_of_python_files_is_a_package(library, report):
    report(
        [
            f"{Path(source.name).parent}/__init__.py is missing"
            for source in library
            if not (source.path.parent / "__init__.py").exists()
        ]
    )


def test_setup_finds_every_package(root, library):
    found = runpy.run_path(str(root / "setup.py"), run_name="discovery")["find_packages"]()
    assert set(found) == {s.module for s in library if s.path.name == "__init__.py"}


def test_the_installed_package_has_every_file(root, report):
    missing = []
    for package, folder in FOLDERS.items():
        installed = Path(importlib.import_module(package).__file__).parent
        wanted = [*(root / folder).rglob("*.py"), root / folder / "py.typed"]
        missing += [
            f"{path.relative_to(root)} is not in the installed {package}, or differs; install again"
            for path in wanted
            if not _same(path, installed / path.relative_to(root / folder))
        ]
    report(missing)


def _same(path, installed):
    return path.exists() and installed.exists() and path.read_bytes() == installed.read_bytes()
