"""What a compiled function depends on through names: globals it reads, and nothing that only shares a name."""

import jitgrad as jg

SCRIPT = """
import jitgrad as jg

w = jg.zeros(2, requires_grad=True)
optimizer = jg.optim.SGD([w], lr=0.1)
scale = 2.0
sum = 0

@jg.compile
def inner(x):
    return x * scale

@jg.compile
def step(x):
    optimizer.zero_grad()
    loss = inner(w - x).square().sum()
    loss.backward()
    optimizer.step()
    return loss

for _ in range(3):
    inner(jg.ones(2))
    sum = step(jg.ones(2))
"""


def run_script():
    scope = {"__name__": "script"}
    exec(compile(SCRIPT, "script.py", "exec"), scope)
    return scope


def test_a_global_of_an_attributes_name_is_not_read():
    explanation = run_script()["step"].explain()
    assert not any("global" in change for miss in explanation.misses for change in miss.differences)
    assert [s.runs for s in explanation.specialisations] == [3]


def test_a_global_that_changes_is_noticed_through_another_compiled_function():
    scope = run_script()
    before = scope["step"](jg.zeros(2)).item()
    jg.Tensor.copy_(scope["w"].detach(), jg.zeros(2))
    scope["scale"] = 0.0
    assert before > 0
    assert scope["step"](jg.zeros(2)).item() == 0


def test_calls_that_cannot_be_kept_are_told():
    kept = []

    @jg.compile
    def f(x):
        kept.append(x * 2)
        return x + 1

    for _ in range(3):
        f(jg.ones(2))
    explanation = f.explain()
    assert [k.tolist() for k in kept] == [[2.0, 2.0]] * 3
    assert sum(explanation.not_kept.values()) == 3
    assert "not kept (3 calls): the call changed Python values it depends on" in str(explanation)


def test_misses_show_numbers_as_written():
    @jg.compile
    def f(x, factor):
        return x * factor

    f(jg.ones(2), 2.0), f(jg.ones(2), 0.1)
    assert str(f.explain().misses[0]) == "arg factor: 2.0 -> 0.1"
