"""A line search that satisfies the strong Wolfe conditions, by cubic interpolation.

After Nocedal and Wright 2006, *Numerical Optimization*, algorithms 3.5 and 3.6, with the safeguards of Schmidt's
`minFunc` (2005), which PyTorch's `LBFGS` follows too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ARMIJO, _CURVATURE = 1e-4, 0.9


@dataclass
class Point:
    """A place on the line: its step, the loss there, the gradient, and the slope along the line."""

    step: float
    loss: float
    gradient: Any
    slope: float


Evaluate = Callable[[float], Point]


def minimum_of_cubic(a: Point, b: Point, low: float, high: float) -> float:
    """Where the cubic through both points and slopes is least, within `[low, high]`; its middle if there is none."""
    first, last = (a, b) if a.step <= b.step else (b, a)
    width = last.step - first.step
    mean = first.slope + last.slope - 3 * (first.loss - last.loss) / (first.step - last.step)
    square = mean * mean - first.slope * last.slope
    if not square >= 0:
        return (low + high) / 2
    root = square**0.5
    at = last.step - width * (last.slope + root - mean) / (last.slope - first.slope + 2 * root)
    return min(max(at, low), high)


def strong_wolfe(
    evaluate: Evaluate, start: Point, step: float, length: float, tolerance_change: float = 1e-9, max_steps: int = 25
) -> tuple[Point, int]:
    """A point that lowers the loss and flattens the slope enough, and how often the loss was evaluated.

    `start` is the point at step 0; `step` is tried first; `length` is the largest change of a variable at step 1.
    """
    bracket, count, done = _bracket(evaluate, start, step, max_steps)
    tries = count - 1
    stalled = False
    if len(bracket) == 1:
        return bracket[0], count
    low, high = sorted(bracket, key=lambda p: p.loss)
    while not done and tries < max_steps and abs(high.step - low.step) * length >= tolerance_change:
        at, stalled = _inside(low, high, stalled)
        new = evaluate(at)
        count += 1
        tries += 1
        if new.loss > start.loss + _ARMIJO * at * start.slope or new.loss >= low.loss:
            high = new
            if high.loss < low.loss:
                low, high = high, low
        else:
            if abs(new.slope) <= -_CURVATURE * start.slope:
                done = True
            elif new.slope * (high.step - low.step) >= 0:
                high = low
            low = new
    return low, count


def _bracket(evaluate: Evaluate, start: Point, step: float, max_steps: int) -> tuple[list[Point], int, bool]:
    """Points between which there is a good one, or that one alone; evaluations; whether the search is over."""
    before, new, count = start, evaluate(step), 1
    for tries in range(max_steps):
        too_high = new.loss > start.loss + _ARMIJO * new.step * start.slope
        if too_high or (tries > 1 and new.loss >= before.loss):
            return [before, new], count, False
        if abs(new.slope) <= -_CURVATURE * start.slope:
            return [new], count, True
        if new.slope >= 0:
            return [before, new], count, False
        low, high = new.step + 0.01 * (new.step - before.step), new.step * 10
        step = minimum_of_cubic(before, new, low, high)
        before, new = new, evaluate(step)
        count += 1
    return [start, new], count, True


def _inside(low: Point, high: Point, stalled: bool) -> tuple[float, bool]:
    """The step to try next, kept off the ends of the bracket if it came close to one of them twice."""
    least, most = sorted((low.step, high.step))
    at = minimum_of_cubic(low, high, least, most)
    margin = 0.1 * (most - least)
    if min(most - at, at - least) >= margin:
        return at, False
    if stalled or at >= most or at <= least:
        return (most - margin if abs(at - most) < abs(at - least) else least + margin), False
    return at, True
