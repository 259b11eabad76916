"""Samples of the checks: values they let through (what they refuse is in `test_checks`)."""

import numpy as np
from ops.sampling import Sample

from jitgrad.ir.ops.check import (
    CheckBetween,
    CheckDivisor,
    CheckFinite,
    CheckIndex,
    CheckInfo,
    CheckNotNegative,
    CheckPositiveSum,
    CheckRange,
    CheckWeights,
)


def _divisor():
    for x in (np.array([1, -2, 3]), np.array(7), np.zeros((0, 2), np.int64)):
        yield Sample(CheckDivisor("remainder"), (x,), lambda x: x)


def _range():
    for x in (np.array([[0, 3], [-100, 2]]), np.array(1), np.zeros((0,), np.int64)):
        yield Sample(CheckRange("nll_loss", 0, 4, -100), (x,), lambda x: x)


def _between():
    for x in (np.array([[0.0, 1.0], [0.5, 0.25]]), np.array(1), np.zeros((0,))):
        yield Sample(CheckBetween("binary_cross_entropy", "input", 0.0, 1.0), (x,), lambda x: x)


def _not_negative():
    for x in (np.array([0.0, np.nan, 2.0]), np.array(1.0), np.zeros((0,))):
        yield Sample(CheckNotNegative("gaussian_nll_loss", "var"), (x,), lambda x: x)


def _positive_sum():
    for x in (np.array([[0.0, 1.0], [0.5, 0.25]]), np.array([2.0]), np.zeros((0, 2))):
        yield Sample(CheckPositiveSum("multinomial"), (x,), lambda x: x)


def _finite():
    for x in (np.ones((2, 2)), np.ones((2, 1), complex), np.zeros((0, 3, 3))):
        yield Sample(CheckFinite("linalg.eig"), (x,), lambda x: x)
    for part, x in (("lower", np.array([[1.0, np.nan], [0.0, 1.0]])), ("upper", np.array([[1.0, 0.0], [np.inf, 1.0]]))):
        yield Sample(CheckFinite("linalg.eigh", part), (x,), lambda x: x)


def _index():
    for x in (np.array([[0, 3], [-4, 2]]), np.array(1), np.zeros((0,), np.int64)):
        yield Sample(CheckIndex("gather", 1, 4), (x,), lambda x: x)


def _info():
    for x in (np.zeros((2,), np.int32), np.array(0, np.int32), np.zeros((0,), np.int32)):
        yield Sample(CheckInfo("linalg.inv", "The matrix is singular."), (x,), lambda x: x)


def _weights():
    for x in (np.array([0, 3]), np.array([0.5, 0.0]), np.zeros((0,))):
        yield Sample(CheckWeights("cov", "fweights"), (x,), lambda x: x)


TABLE = {
    "check_between": _between,
    "check_divisor": _divisor,
    "check_finite": _finite,
    "check_index": _index,
    "check_info": _info,
    "check_not_negative": _not_negative,
    "check_positive_sum": _positive_sum,
    "check_range": _range,
    "check_weights": _weights,
}
