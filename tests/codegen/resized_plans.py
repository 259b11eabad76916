"""The plan verifier on recorded plans, at the sizes that they are used for."""

from contextlib import contextmanager
from dataclasses import replace

from jitgrad.codegen import compile as codegen
from jitgrad.codegen.lower import Scratch
from jitgrad.codegen.plan import CopyStep, InnerPlans, Place, Plan
from jitgrad.codegen.plan_verify import verify_plan
from jitgrad.codegen.resize import Table
from jitgrad.codegen.resize.template import Template
from jitgrad.ir.tracked import Lookup


def verifying(monkeypatch):
    """Have each plan verified that a template gives; the list that is returned grows by each."""
    verified, at = [], Template.at

    def checked(template, numbers):
        made = at(template, numbers)
        registers = template.symbols.recording.at(template.symbols.bound(numbers))
        verify_at(template.plan, Lookup(registers))
        verified.append(made)
        return made

    monkeypatch.setattr(Template, "at", checked)
    return verified


def own_table(monkeypatch):
    """A table of templates of one's own, whose plans are verified, and nothing on disk."""
    made = Table()
    verifying(monkeypatch)
    monkeypatch.setattr(codegen, "TEMPLATES", made)
    monkeypatch.setattr(codegen.stored, "key_of", lambda *args: None)
    return made


def verify_at(plan, look_up):
    """Verify a recorded plan with plain numbers in the places of tracked ones."""
    with _plain(plan, look_up):
        verify_plan(_plain_plan(plan, look_up))


@contextmanager
def _plain(plan, look_up):
    """Values of plain types, for as long as the context lasts."""
    values = list(_values(plan))
    before = [v.type for v in values]
    for v, t in zip(values, map(look_up, before), strict=True):
        v.type = t
    try:
        yield
    finally:
        for v, t in zip(values, before, strict=True):
            v.type = t


def _values(plan):
    """All values that a plan knows of."""
    program = plan.program
    found = dict.fromkeys((*program.graph.values(), *program.values, *program.constants))
    found |= dict.fromkeys(o for o in plan.places if not isinstance(o, Scratch))
    for step, launches in zip(plan.steps, plan.launches, strict=True):
        if hasattr(step, "node"):
            found |= dict.fromkeys((*step.node.operands, *step.node.results))
        found |= dict.fromkeys(o for x in launches for o in x.operands if not isinstance(o, Scratch))
    for inner in plan.inner.values():
        found |= dict.fromkeys(v for p in inner.plans for v in _values(p))
    return found


def _plain_plan(plan, look_up):
    """A plan whose scratch memory and places are plain."""
    scratch = {o: Scratch(o.dtype, look_up(o.length)) for o in plan.places if isinstance(o, Scratch)}

    def place(p):
        return Place(p.region, p.index, look_up(p.offset))

    def step(s):
        return replace(s, target=place(s.target)) if isinstance(s, CopyStep) else s

    def inner(x):
        plans = tuple(_plain_plan(p, look_up) for p in x.plans)
        return InnerPlans(plans, scratch[x.arena], tuple(scratch[o] for o in x.others), scratch[x.outcome])

    return Plan(
        plan.program, plan.aliases, [step(s) for s in plan.steps],
        [[replace(x, operands=tuple(scratch.get(o, o) for o in x.operands)) for x in part] for part in plan.launches],
        {scratch.get(o, o): place(p) for o, p in plan.places.items()}, plan.in_place, look_up(plan.arena_bytes),
        {s: inner(x) for s, x in plan.inner.items()},
    )  # fmt: skip
