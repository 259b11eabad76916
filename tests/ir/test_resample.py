"""Fields of resampling ops that no interpolation has: a file may hold anything."""

import math

import pytest

from jitgrad.ir.ops.resample import Resample, ResampleTranspose


@pytest.mark.parametrize("op", [Resample, ResampleTranspose])
@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, 1e300, 5.0])
def test_a_step_that_leaves_the_source_is_refused(op, scale):
    with pytest.raises(ValueError, match="scale must be between"):
        op(0, 3, 4, "linear", scale, False)
