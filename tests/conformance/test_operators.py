"""Every operator of PyTorch's table in every mode: the quick slice always, all samples with `--slow`.

What does not agree is listed in `known.py`; an entry that is no longer true fails, too.
"""

import pytest

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tables of samples need it")

from conformance.known import KNOWN, KNOWN_IN_FULL, reason  # noqa: E402
from conformance.modes import CASES, MODES, Missing, Nothing, run  # noqa: E402

QUICK = 2  # samples per dtype
FULL = 1000
APPLICATIONS = [(name, mode) for mode in MODES for name in CASES]


def _check(name, mode, count, known, record_property):
    record_property("mode", mode)
    try:
        run(CASES[name], mode, count)
    except Nothing:
        pytest.skip("the mode does not apply")
    except Exception as error:
        record_property("outcome", "missing" if isinstance(error, Missing) else "differs")
        if known is None:
            raise
        pytest.xfail(known)
    record_property("outcome", "agrees")
    assert known is None, f"agrees now: take {name} ({mode}) out of tests/conformance/known.py"


@pytest.mark.parametrize(("name", "mode"), APPLICATIONS, ids=[f"{mode}-{name}" for name, mode in APPLICATIONS])
def test_quick(name, mode, record_property):
    _check(name, mode, QUICK, reason(KNOWN, name, mode), record_property)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), APPLICATIONS, ids=[f"{mode}-{name}" for name, mode in APPLICATIONS])
def test_full(name, mode, record_property):
    known = reason(KNOWN, name, mode) or reason(KNOWN_IN_FULL, name, mode)
    _check(name, mode, FULL, known, record_property)


def test_known_names_exist():
    for table in (KNOWN, KNOWN_IN_FULL):
        for name, modes in table.items():
            assert name in CASES, f"{name} is no operator of the table"
            assert {m for group in modes for m in group.split()} <= set(MODES)
