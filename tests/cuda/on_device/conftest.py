"""For the checks of a CUDA device, simulated or real: `pytest tests/cuda` runs them in a process of their own."""

import os

import pytest

import jitgrad as jg

if os.environ.get("JITGRAD_TESTS_FAKE_DRIVER"):
    import fake_driver

    fake_driver.install()


@pytest.fixture(autouse=True)
def _seeded():
    """The same random numbers in each check."""
    jg.manual_seed(0)
