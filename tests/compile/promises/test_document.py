"""The document of promises names tests that exist."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]


def test_every_named_test_exists():
    text = (TESTS / "compile" / "PROMISES.md").read_text()
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(named) > 80
    missing = [f"{f}::{name}" for f, name in named if f"\ndef {name}(" not in (TESTS / f).read_text()]
    assert not missing
