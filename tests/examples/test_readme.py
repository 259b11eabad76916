"""README's and ARCHITECTURE's Python runs, and prints what they say."""

import re

import pytest
from codegen.test_mathlib import DOMAINS
from examples.documents import ROOT, python_blocks, run_blocks

from jitgrad.ir.scalar import Fn

NAMES = ("README.md", "ARCHITECTURE.md")
LINKED = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


@pytest.mark.parametrize("name", NAMES)
def test_python_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert python_blocks(name)
    run_blocks(name)


@pytest.mark.parametrize("name", LINKED)
def test_links_lead_somewhere(name):
    text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]
    missing = [t for t in targets if t and not (ROOT / t).exists()]
    assert not missing, f"{name} links to what is not there: {missing}"


def test_both_commands_are_single_lines():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for marker in ("main", "tests"):
        assert re.search(rf"^<!-- command: {marker} -->\n```sh\n.+\n```$", text, re.MULTILINE)


def test_files_named_in_architecture_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/*]+\.py)`", text))
    folders = [ROOT / name for name in ("ir", "codegen", "jitgrad", "tests", "examples", ".")]
    missing = [n for n in sorted(named) if not any(any(f.glob(up + n)) for f in folders for up in ("", "*/", "*/*/"))]
    assert len(named) > 100
    assert not missing, f"ARCHITECTURE.md names files that are no more: {missing}"


def test_error_bounds_in_architecture_are_those_tested():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| ([a-z0-9, ]+?)(?: \(x > 0\))? (?=\| (\d\.\d) \| (\d\.\d) )", text)
    stated = {Fn(name): (float(x), float(y)) for names, x, y in rows for name in names.split(", ")}
    assert {fn: bounds for fn, (_, *bounds) in DOMAINS.items()} == {
        fn: list(bounds) for fn, bounds in stated.items() if fn is not Fn.POW
    }
