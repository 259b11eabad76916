"""Comparing arrays by their bits."""

import numpy as np


def assert_same_bits(actual, expected, message=""):
    """Equal dtypes, shapes and bits, so that 0.0 is not -0.0; any NaN equals any other."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), message
    if not np.array_equal(bits(actual), bits(expected)):
        raise AssertionError(f"{actual}\ndiffers from\n{expected}\n{message}")


def bits(array):
    """The bits of the elements, those of every NaN made equal."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "c":
        return bits(array.reshape(-1).view(array.real.dtype))
    if array.dtype.kind not in "biu":
        array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
    return array.reshape(-1).view(f"u{array.dtype.itemsize}")
