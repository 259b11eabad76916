"""For the checks of a CUDA device, simulated or real: `pytest tests/cuda` runs them in a process of their own."""

import pytest

import jitgrad as jg


@pytest.fixture(autouse=True)
def _seeded():
    """The same random numbers in each check."""
    jg.manual_seed(0)
