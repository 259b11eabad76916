"""Random programs with gradients, in turns with others that resemble them: values and gradients are PyTorch's."""

import warnings

import pytest

import jitgrad as jg
from jitgrad import hot_path

pytest.importorskip("torch")

import random_eager

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("first", [*range(0, 50, 10), 230])
def test_families_of_programs(first, monkeypatch):
    monkeypatch.setattr(hot_path, "CALLS", 1)
    jg.compile(lambda x: x + 1)(jg.ones(2))  # the code generator is loaded
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + 10):
            random_eager.check(seed)
