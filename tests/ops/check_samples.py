"""Samples of the checks: values they let through (what they refuse is in `test_checks`)."""

import numpy as np
from ops.sampling import Sample

from jitgrad.ir.ops.check import CheckDivisor, CheckRange


def _divisor():
    for x in (np.array([1, -2, 3]), np.array(7), np.zeros((0, 2), np.int64)):
        yield Sample(CheckDivisor("remainder"), (x,), lambda x: x)


def _range():
    for x in (np.array([[0, 3], [-100, 2]]), np.array(1), np.zeros((0,), np.int64)):
        yield Sample(CheckRange("nll_loss", 0, 4, -100), (x,), lambda x: x)


TABLE = {"check_divisor": _divisor, "check_range": _range}
