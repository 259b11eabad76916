"""A few thousand broken files; `python tests/export/fuzz.py` makes as many as one likes."""

import pytest
from export.fuzz import run


def test_broken_files_give_one_error():
    found = run(3000, seed=7, jobs=1)
    assert found["wrong"] == [] and found["refused"] > 2500 and found["loads"] > 50
    assert found["peak_mb"] < 400


@pytest.mark.slow
def test_many_broken_files():
    assert run(30_000, seed=8, jobs=2)["wrong"] == []
