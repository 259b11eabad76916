"""Fused groups, kernels and plans as text: what a change of the code generator changes."""

import pytest
from codegen.formulas import CASES, build

from jitgrad.codegen.fuse import fuse
from jitgrad.codegen.plan import make_plan
from jitgrad.codegen.program_text import groups_text, kernels_text, plan_text


@pytest.mark.parametrize(
    "case",
    [
        "gelu",
        "softmax rows",
        "layer norm",
        "log softmax",
        "relu backward",
        "perceptron",
        "mixed sum",
        "transposed",
        "pieces",
    ],
)
def test_stages(case, golden):
    program = fuse(build(*CASES[case]))
    plan = make_plan(program, {})
    text = f"{groups_text(program)}\n{kernels_text(plan)}\n{plan_text(plan)}"
    golden(f"codegen/{case.replace(' ', '_')}.txt", text)
