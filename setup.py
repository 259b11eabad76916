"""Finds the packages of the wheel: every folder of Python files under `jitgrad/`, `ir/` and `codegen/`."""

from pathlib import Path

FOLDERS = {"jitgrad": "jitgrad", "jitgrad.ir": "ir", "jitgrad.codegen": "codegen"}


def find_packages() -> list[str]:
    """The dotted names of all folders that hold Python files, so that none can be forgotten."""
    root = Path(__file__).resolve().parent
    found = {
        ".".join([package, *path.parent.relative_to(root / folder).parts])
        for package, folder in FOLDERS.items()
        for path in (root / folder).rglob("*.py")
    }
    return sorted(found)


if __name__ == "__main__":
    from setuptools import setup

    setup(packages=find_packages())
