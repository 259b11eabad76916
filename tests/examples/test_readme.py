"""README's and ARCHITECTURE's Python runs, and prints what they say."""

import re

import pytest
from examples.documents import ROOT, python_blocks, run_blocks

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
    missing = [n for n in sorted(named) if not any(any(f.glob(n)) or any(f.glob(f"*/{n}")) for f in folders)]
    assert len(named) > 100
    assert not missing, f"ARCHITECTURE.md names files that are no more: {missing}"
