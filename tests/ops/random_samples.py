"""Samples of random ops: seeds and offsets whose upper halves matter too."""

import numpy as np
from ops.sampling import FLOATS, Sample

from jitgrad.ir import dtypes
from jitgrad.ir.ops.random import RandomBits, RandomInt, RandomNormal, RandomUniform

STARTS = ((0, 0), (1, 7), (-5, 2**32 - 2), (2**63 - 1, 2**62 + 3))


def _drawn(*ops):
    for op in ops:
        for seed, offset in STARTS:
            yield Sample(op, (np.array(seed), np.array(offset)))


def _bits():
    return _drawn(*(RandomBits(s, d) for s in ((), (2, 3), (0,)) for d in (dtypes.int32, dtypes.int64)))


def _uniform():
    return _drawn(*(RandomUniform((2, 3), dtype) for dtype in FLOATS), RandomUniform(()), RandomUniform((0, 2)))


def _normal():
    return _drawn(*(RandomNormal((4, 5), dtype) for dtype in FLOATS), RandomNormal(()), RandomNormal((0, 2)))


def _int():
    return _drawn(
        RandomInt((3, 4), 0, 10),
        RandomInt((3,), -(2**63), 2**63),
        RandomInt((3,), -3, 2**40),
        RandomInt((), -(2**62), 2**63),
        RandomInt((2, 0), 0, 256, dtypes.uint8),
        RandomInt((9,), 0, 256, dtypes.uint8),
        RandomInt((4,), 5, 6, dtypes.int8),
    )


TABLE = {"random_bits": _bits, "random_uniform": _uniform, "random_normal": _normal, "random_int": _int}
