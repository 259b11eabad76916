"""Philox: published vectors; values that depend on seed, offset and place alone; distributions."""

import numpy as np
import pytest

from jitgrad.ir import dtypes
from jitgrad.ir.ops import random as random_ops
from jitgrad.ir.ops.random import RandomBits, RandomInt, RandomNormal, RandomUniform, philox

# Random123's known answers for Philox4x32-10: counter, key, words.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return tuple(int(w, 16) for w in text.split())


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter, key, result):
    assert tuple(int(w) for w in philox(words(counter), words(key))) == words(result)


def draw(op, seed=3, offset=11):
    return op.reference(np.int64(seed), np.int64(offset))


def test_the_first_word_is_the_known_one():
    assert draw(RandomBits((1,)), 0, 0)[0] == 0x6627E8D5


@pytest.mark.parametrize("make", [RandomBits, RandomUniform, RandomNormal, lambda shape: RandomInt(shape, -5, 1000)])
def test_an_element_depends_on_its_counter_alone(make):
    whole = draw(make((6, 4))).ravel()
    np.testing.assert_array_equal(draw(make((24,))), whole)
    np.testing.assert_array_equal(draw(make((10,)), offset=11 + 8), whole[8:18])
    np.testing.assert_array_equal(draw(make((9000,)))[8000:], draw(make((1000,)), offset=11 + 8000))
    assert make((6, 4)).draws == 24 and make(()).draws == 1 and make((0, 3)).draws == 0
    assert not np.array_equal(draw(make((24,)), seed=4), whole)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(dtypes.float16, 11), (dtypes.bfloat16, 8), (dtypes.float32, 24), (dtypes.float64, 53)],
)
def test_uniform_has_all_its_bits_and_stays_below_one(dtype, bits):
    x = draw(RandomUniform((4096,), dtype)).astype(np.float64)
    scaled = x * 2.0**bits
    np.testing.assert_array_equal(scaled, np.round(scaled))
    assert np.any(scaled % 2 == 1) and x.min() >= 0.0 and x.max() < 1.0
    assert abs(x.mean() - 0.5) < 5 * np.sqrt(1 / 12 / x.size)  # five standard errors


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_normal_moments(dtype):
    x = draw(RandomNormal((20000,), dtype)).astype(np.float64)
    error = 5 / np.sqrt(x.size)
    assert abs(x.mean()) < error and abs(x.var() - 1) < error * np.sqrt(2)
    assert abs((x**3).mean()) < error * np.sqrt(15) and abs((x**4).mean() - 3) < error * np.sqrt(96)
    assert abs(np.mean(x[1:] * x[:-1])) < error


def test_integers_fill_their_range_evenly():
    counts = np.bincount(draw(RandomInt((7000,), 0, 7)), minlength=7)
    assert counts.size == 7 and np.all(np.abs(counts - 1000) < 5 * np.sqrt(1000 * 6 / 7))


def test_wide_ranges_are_exact_products():
    """Against Python's integers: the upper half of 64 random bits times the range."""
    low, high = -(2**61) - 5, 2**63 - 7
    w0, w1, *_ = philox((np.arange(11, 31), 0, 0, 0), (3, 0))
    want = [low + (((int(a) << 32 | int(b)) * (high - low)) >> 64) for a, b in zip(w0, w1, strict=True)]
    assert draw(RandomInt((20,), low, high)).tolist() == want


@pytest.mark.parametrize("op", [RandomUniform, RandomNormal])
@pytest.mark.parametrize("offset", [0, 3, 250, 255, 256, 1020, 2047, 2**63 - 30, -1, -300])
def test_short_draws_are_parts_of_long_ones(op, offset, monkeypatch):
    """Their words come out of blocks computed ahead; the elements are the same."""
    for dtype in (dtypes.float32, dtypes.float64):
        for count in (0, 1, 7, 64, 65):
            short = draw(op((count,), dtype), -(2**62) + 5, offset)
            with monkeypatch.context() as patched:
                patched.setattr(random_ops, "_SHORT", -1)
                at_once = draw(op((count,), dtype), -(2**62) + 5, offset)
            assert short.dtype == at_once.dtype
            assert short.tobytes() == at_once.tobytes()
