"""House rules on documentation: everything public has a docstring, and the examples in them run."""

import ast
import doctest
import importlib
import pkgutil

import pytest

PACKAGES = ("jitgrad", "jitgrad.ir", "jitgrad.codegen")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _module_names():
    return sorted(
        {name for package in PACKAGES for name in [package, *_children(importlib.import_module(package), package)]}
    )


def _children(package, name):
    return [module.name for module in pkgutil.walk_packages(package.__path__, f"{name}.")]


@pytest.mark.parametrize("name", _module_names())
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch, report):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=FLAGS)
    report([f"{name}: {results.failed} of {results.attempted} examples failed"] if results.failed else [])


def test_modules_say_their_role(everything, report):
    report([f"{s.name}:1: no module docstring" for s in everything if not ast.get_docstring(s.tree)])


def test_public_names_are_documented(library, report):
    documented = _documented_methods(library)
    violations = []
    for source in library:
        for node in source.tree.body:
            if _is_public_definition(node) and not ast.get_docstring(node):
                violations.append(source.at(node, f"{node.name} has no docstring"))
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                violations += [
                    source.at(method, f"{node.name}.{method.name} has no docstring, nor has what it overrides")
                    for method in node.body
                    if _is_method(method) and not _is_documented(node.name, method.name, documented)
                ]
    report(violations)


def _is_public_definition(node):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return isinstance(node, kinds) and not node.name.startswith("_") and not _is_exempt(node)


def _is_method(node):
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public_definition(node)


def _is_exempt(node):
    """Setters and overloads are documented by what they belong to."""
    names = {getattr(d, "attr", getattr(d, "id", None)) for d in node.decorator_list}
    return bool(names & {"setter", "deleter", "overload"})


def _documented_methods(library):
    """Class name -> (names of its documented methods, names of its bases); classes of one name are taken together."""
    found = {}
    for node in (n for source in library for n in source.tree.body if isinstance(n, ast.ClassDef)):
        methods, bases = found.setdefault(node.name, (set(), set()))
        methods |= {m.name for m in node.body if isinstance(m, ast.FunctionDef) and ast.get_docstring(m)}
        bases |= {_base_name(base) for base in node.bases} - {node.name}
    return found


def _base_name(base):
    base = base.value if isinstance(base, ast.Subscript) else base
    return getattr(base, "attr", getattr(base, "id", ""))


def _is_documented(cls, method, documented):
    """Whether the class or one of its bases documents the method."""
    if cls not in documented:
        return False
    methods, bases = documented[cls]
    return method in methods or any(_is_documented(base, method, documented) for base in bases)
