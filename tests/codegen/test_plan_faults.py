"""The verifier refuses every plan with a planted fault: steps left out or swapped, places moved, too little memory."""

import dataclasses

import pytest
from codegen.formulas import CASES, build, f32

from jitgrad.codegen.fuse import fuse
from jitgrad.codegen.plan import CopyStep, make_plan, reads_of, writes_of
from jitgrad.codegen.plan_verify import verify_plan
from jitgrad.ir.errors import InternalError
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.math import Exp


def _changed(plan, **changes):
    kept = {"steps": list(plan.steps), "launches": list(plan.launches), "places": dict(plan.places)}
    return dataclasses.replace(plan, **{**kept, **changes})


def _written(step):
    return (step.result,) if isinstance(step, CopyStep) else writes_of(step)


def _read(plan, step):
    return (step.source,) if isinstance(step, CopyStep) else reads_of(plan.program, step)


def _faults(plan):
    """Each with a name; every one makes some value unavailable where it is needed."""
    steps = plan.steps
    read = [{plan.program.memory_of(v) for v in _read(plan, s)} for s in steps]
    written = [{plan.program.memory_of(v) for v in _written(s)} - r for s, r in zip(steps, read, strict=True)]
    for n in range(len(steps)):
        if any(v.type.numel for v in written[n]):
            yield f"step {n} left out", _changed(plan, steps=_without(steps, n), launches=_without(plan.launches, n))
        for later in range(n + 1, len(steps)):
            if any(v.type.numel for v in written[n] & read[later]):
                yield (
                    f"steps {n} and {later} swapped",
                    _changed(plan, steps=_swapped(steps, n, later), launches=_swapped(plan.launches, n, later)),
                )
    yield from _moved(plan, written, read)
    if plan.arena_bytes > 64:
        yield "half the arena", _changed(plan, arena_bytes=plan.arena_bytes // 2)


def _moved(plan, written, read):
    """What a step writes goes where a value lies that a later step reads."""
    before = set(plan.program.graph.inputs) | set(plan.program.constants)
    for n, results in enumerate(written):
        for living in {v for v in before if any(v in r for r in read[n + 1 :])}:
            for v in results - {living}:
                if v in plan.places and v.type.numel and living.type.numel and living in plan.places:
                    places = {**plan.places, v: plan.places[living]}
                    yield f"step {n} writes {v!r} over {living!r}", _changed(plan, places=places)
        before |= results


def _without(items, n):
    return [*items[:n], *items[n + 1 :]]


def _swapped(items, n, m):
    items = list(items)
    items[n], items[m] = items[m], items[n]
    return items


def _products(b, x, w):
    """Products with maps in between, so that values live one after another, and one lives to the end."""
    first = x = b(MatMul(), x, w)
    for _ in range(5):
        x = b(Exp(), b(MatMul(), x, w))
    return b(MatMul(), x, first), x


PROGRAMS = {**CASES, "products": ([f32(8, 8)] * 2, _products)}


def _plans(case):
    """Plans of a case: with outputs of their own, and with the first one written to an input."""
    program = fuse(build(*PROGRAMS[case]))
    yield make_plan(program, {})
    graph = program.graph
    for slot, value in enumerate(graph.inputs):
        if value.type == graph.outputs[0].type:
            yield make_plan(program, {0: slot})


@pytest.mark.parametrize("case, plan", [(case, plan) for case in PROGRAMS for plan in _plans(case)])
def test_planted_faults_are_refused(case, plan):
    verify_plan(plan)
    passed = []
    for name, broken in _faults(plan):
        try:
            verify_plan(broken)
        except InternalError:
            continue
        passed.append(name)
    assert not passed


def test_faults_are_many():
    assert sum(len(list(_faults(plan))) for case in PROGRAMS for plan in _plans(case)) > 200
