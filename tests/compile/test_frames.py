"""Errors in compiled calls name the user's line; tracebacks, profilers and debuggers see the user's frames."""

import cProfile
import pstats
import sys
import traceback

import pytest

import jitgrad as jg


def looks_up(x, i):
    y = x * 2
    return y[i] + 1  # the line


def mismatched(x, w):
    return x @ w


@pytest.mark.parametrize("calls_before", [0, 1, 3])
def test_an_error_names_the_line_on_each_call(calls_before):
    f = jg.compile(looks_up)
    x = jg.ones(4)
    for _ in range(calls_before):
        f(x, jg.tensor([1, 2]))
    with pytest.raises(IndexError) as caught:
        f(x, jg.tensor([1, 9]))
    with pytest.raises(IndexError) as eager:
        looks_up(x, jg.tensor([1, 9]))
    line = looks_up.__code__.co_firstlineno + 2
    assert str(caught.value) == str(eager.value) and f"test_frames.py:{line} in looks_up" in str(caught.value)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(frame.name == "looks_up" and frame.lineno == line for frame in frames)
    assert f(x, jg.tensor([1, 2])).tolist() == [3.0, 3.0]


def test_an_error_of_shapes_shows_operands_and_line():
    f = jg.compile(mismatched)
    with pytest.raises(RuntimeError, match=r"matmul(.|\n)*test_frames.py:\d+ in mismatched"):
        f(jg.ones(2, 3), jg.ones(4, 5))


def test_profilers_see_the_function_and_change_nothing():
    f = jg.compile(looks_up)
    x, i = jg.ones(4), jg.tensor([1, 2])
    profiler = cProfile.Profile()
    results = profiler.runcall(lambda: [f(x, i).tolist() for _ in range(3)])
    names = {name for _, _, name in pstats.Stats(profiler).stats}
    assert results == [[3.0, 3.0]] * 3 and {"looks_up", "__call__", "replay"} <= names
    assert len(f.explain().specialisations) == 1


def test_debuggers_stop_in_the_function():
    seen = []

    def trace(frame, event, arg):
        if frame.f_code is looks_up.__code__ and event == "line":
            seen.append((frame.f_lineno - frame.f_code.co_firstlineno, sorted(frame.f_locals)))
        return trace

    f = jg.compile(looks_up)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = f(jg.ones(4), jg.tensor([1, 2]))
    finally:
        sys.settrace(before)
    assert seen == [(1, ["i", "x"]), (2, ["i", "x", "y"])] and result.tolist() == [3.0, 3.0]
    assert len(f.explain().specialisations) == 1 and f(jg.ones(4), jg.tensor([1, 2])).tolist() == [3.0, 3.0]
