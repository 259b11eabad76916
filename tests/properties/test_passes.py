"""Each pass gives a valid graph that means the same, to the bit, on random graphs and awkward numbers."""

import warnings

import pytest
from hypothesis import given
from properties.comparison import assert_same_bits
from properties.strategies import graphs

from jitgrad.ir.interpreter import run
from jitgrad.ir.passes import (
    Canonicalize,
    Decompose,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    FoldConstants,
    SimplifyAlgebra,
    simplification,
)
from jitgrad.ir.printer import to_text
from jitgrad.ir.verify import verify

PASSES = (
    EliminateDeadCode(),
    EliminateCommonSubexpressions(),
    FoldConstants(),
    Canonicalize(),
    SimplifyAlgebra(),
    Decompose(),
    simplification(),
)


@pytest.mark.parametrize("transform", PASSES, ids=lambda p: type(p).__name__)
@given(case=graphs())
def test_meaning_is_kept(transform, case):
    graph, arrays = case
    verify(graph)
    changed = transform.run(graph)
    verify(changed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of NaN and infinities, which are wanted here
        expected, actual = run(graph, arrays), run(changed, arrays)
    for a, b in zip(actual, expected, strict=True):
        assert_same_bits(a, b, f"{to_text(graph)}\n{to_text(changed)}")


@pytest.mark.parametrize("transform", PASSES, ids=lambda p: type(p).__name__)
@given(case=graphs())
def test_nothing_is_left_to_do(transform, case):
    once = EliminateDeadCode().run(transform.run(case[0]))
    twice = EliminateDeadCode().run(transform.run(once))
    assert to_text(once) == to_text(twice)
