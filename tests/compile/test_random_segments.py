"""Random functions with branches on values, effects, views and writes: compiled equals eager on changing data."""

import warnings

import pytest
from random_segments import first_difference


def check(seed, effects):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = first_difference(seed, effects)
    assert found is None, found


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_random_functions(seed, effects):
    check(seed, effects)


@pytest.mark.slow
@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("seed", range(100, 1000, 60))
def test_many_random_functions(seed, effects):
    for k in range(seed, seed + 60):
        check(k, effects)
