"""Functions of integers and bools against PyTorch's, to the last place or so of float32.

What is rounded otherwise is listed in `known.py`; an entry that is no longer true fails, too.
"""

import numpy as np
import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tables of samples need it")

from conformance.comparing import array, leaves  # noqa: E402
from conformance.known import KNOWN_OF_INTEGERS  # noqa: E402
from conformance.modes import CASES  # noqa: E402

SAMPLES = 6
TOLERANCE = 1e-7  # results of less than half a unit, relative to numbers just above a power of two
SINGLE = (torch.float32, torch.complex64)


def off(case):
    """Where results differ by more than rounding once would explain: dtype and sample."""
    for dtype in (torch.int64, torch.bool):
        for i, sample in enumerate(case.samples(dtype, SAMPLES)) if dtype in case.entry.dtypes else ():
            want = case.theirs(sample)
            pairs = [] if want is None else list(zip(leaves(case.ours(sample)), leaves(want), strict=True))
            for ours, theirs in pairs:
                if isinstance(theirs, torch.Tensor) and theirs.dtype in SINGLE:
                    same = np.isclose(array(ours), array(theirs), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
                    if not same.all():
                        yield dtype, i


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.function and case.comparable])
def test_rounding(name):
    found = list(off(CASES[name]))
    assert bool(found) is (name in KNOWN_OF_INTEGERS), found


def test_known_names_exist():
    assert set(KNOWN_OF_INTEGERS) <= set(CASES)
