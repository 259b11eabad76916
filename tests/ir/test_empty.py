"""Reductions of tensors without elements."""

import numpy as np
import pytest

from jitgrad.ir import dtypes
from jitgrad.ir.ops.argmax import ArgMax, ArgMin
from jitgrad.ir.ops.reduction import Amax, Amin
from jitgrad.ir.types import TensorType


@pytest.mark.parametrize("cls", [Amax, Amin, ArgMax, ArgMin])
@pytest.mark.parametrize("keepdim", [False, True])
def test_extremes_of_no_groups(cls, keepdim):
    made = cls((1,), keepdim)
    (expected,) = made.infer(TensorType((2, 0, 0), dtypes.float32))
    out = made.reference(np.empty((2, 0, 0), np.float32))
    assert (out.shape, out.dtype) == (expected.shape, expected.dtype.np)
