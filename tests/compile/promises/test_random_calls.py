"""Random functions of views, writes, branches and Python state: six calls each, compiled against eager ones."""

import pytest
import random_calls

from jitgrad.compiler import specialise


@pytest.mark.parametrize("first", range(0, 40, 5))
def test_random_calls(first):
    for seed in range(first, first + 5):
        random_calls.check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40, 3040, 50))
def test_many_random_calls(first):
    for seed in range(first, first + 50):
        random_calls.check(seed)


def test_a_planted_fault_is_found_and_shrunk(monkeypatch):
    monkeypatch.setattr(specialise, "assign", lambda target, source: None)
    body = ["t0 = a.sin()", "b.mul_(2)", "t1 = c[1:]", "c.t().add_(t0.t())", "t2 = t1 * 2"]
    calls = [
        ["leaves = [leaf(1, 3, 2)]", "a, b, c = leaf(2, 3, 2), leaf(3, 3, 2), leaf(4, 2, 3).t()"],
        ["leaves = [leaf(5, 3, 2)]", "a, b, c = leaf(6, 3, 2), leaf(7, 3, 2), leaf(8, 2, 3).t()"],
    ]
    program = random_calls.Program(body, "(t0, t2)", calls)
    found = random_calls.difference(program)
    assert found.startswith("call 0: tensors: ")
    small = random_calls.shrink(program, found.split(":")[1])
    assert small.body == ["t0 = a.sin()", "c.t().add_(t0.t())"] and len(small.calls) == 1
