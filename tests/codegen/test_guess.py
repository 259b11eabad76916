"""What follows from a batch is found out at its first length, so that the second takes no passes."""

import numpy as np
import pytest
from codegen.resized_plans import own_table
from codegen.test_resize import PROGRAMS, arrays_of, program

import jitgrad as jg
from jitgrad import nn
from jitgrad.codegen import compile as codegen
from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.options import CompileOptions
from jitgrad.codegen.resize.guess import guess
from jitgrad.codegen.resize.outline import Outlines
from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.parser import parse


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """All plans for other sizes are verified."""
    return own_table(monkeypatch)


def check(graph, varying=(0,)):
    """The executable, whose results are those of compiling anew, to the bit."""
    arrays = arrays_of(graph)
    anew = codegen._compile_anew(graph, "anew", {}, CompileOptions(), codegen.ignore, codegen.CPU)
    made = compile_graph(graph, varying=varying)
    for a, b in zip(made(arrays), anew(arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    return made


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"a number like a length"}))
def test_the_second_size_takes_no_passes(name, table):
    first, second = (check(program(name, n)) for n in (12, 21))
    assert "prepare" in first.stats.stages_ms and "prepare" not in second.stats.stages_ms
    assert second.stats.compiled == 0 and not any(k.failures for k in table._known.values())


def guessed(text, varying=(0,)):
    graph = parse(text)
    outline = Outlines().of(graph)
    return {outline.numbers[k]: terms for k, terms in guess(graph, outline, varying).items()}


def test_lengths_that_are_fixed_are_told_from_the_batch():
    """A batch of 4 of 4 channels, which a bias has as well."""
    found = guessed(
        "graph(%x: f32[4,4,2], %b: f32[4,1]) -> (f32[4,4,2]) { %c = broadcast_to[shape=(4, 4, 2)](%b) : f32[4,4,2]"
        " %y = add(%x, %c) : f32[4,4,2] return %y }"
    )
    assert found == {4: {(0,): 1}}
    text = (
        "graph(%x: f32[4,5], %w: f32[5,4], %b: f32[4]) -> (f32[4,4]) { %y = matmul(%x, %w) : f32[4,4]"
        " %c = broadcast_to[shape=(4, 4)](%b) : f32[4,4] %z = add(%y, %c) : f32[4,4] return %z }"
    )
    graph = parse(text)
    assert guess(graph, Outlines().of(graph), (0,)) == {0: {(0,): 1}, 5: {(0,): 1}}  # of 4 and 4, the first


def test_an_axis_that_is_split_again():
    found = guessed(
        "graph(%x: f32[6,10,12]) -> (f32[6,2,10,6]) { %a = reshape[shape=(60, 12)](%x) : f32[60,12]"
        " %t = tanh(%a) : f32[60,12] %b = reshape[shape=(6, 10, 2, 6)](%t) : f32[6,10,2,6]"
        " %c = permute[perm=(0, 2, 1, 3)](%b) : f32[6,2,10,6] return %c }"
    )
    assert found[60] == {(0,): 10} and found[6] == {(0,): 1}


def test_arguments_that_are_weights_are_fixed_by_what_they_meet():
    assert not guessed("graph(%w: f32[4,3], %x: f32[5,4]) -> (f32[5,3]) { %y = matmul(%x, %w) : f32[5,3] return %y }")


def test_a_wrong_guess_is_noticed(table):
    """Of 12 times 4, the 4 is taken for the length, which it is by chance."""

    def turned(n):
        return parse(
            f"graph(%x: f32[{n},12]) -> (f32[{3 * n},4]) {{ %a = reshape[shape=({3 * n}, 4)](%x) : f32[{3 * n},4]"
            f" %y = tanh(%a) : f32[{3 * n},4] return %y }}"
        )

    made = [check(turned(n)) for n in (4, 6, 9)]
    assert ["prepare" in x.stats.stages_ms for x in made] == [True, True, False]


def test_lengths_that_equal_others_by_chance_take_the_same_template(table):
    def gradients(n):
        fields = "stride=(1,), padding=(1,), dilation=(1,), groups=1"
        forward = parse(
            f"graph(%x: f32[{n},16,40], %w: f32[32,16,3]) -> (f32[{n},32,40]) {{"
            f" %y = conv[{fields}](%x, %w) : f32[{n},32,40] return %y }}"
        )
        return gradient_graph(forward, [0, 1])

    made = [check(gradients(n), (0, 2)) for n in (24, 32, 16, 3, 200)]
    assert ["prepare" in x.stats.stages_ms for x in made] == [True, False, False, False, False]


def test_a_training_step_at_its_second_size(table):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    optimizer = jg.optim.Adam(model.parameters(), lr=0.01)

    @jg.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for n in (24, 9):
        step(jg.randn(n, 3, 6, 6), jg.randint(4, (n,)))
    first, second = step.explain().specialisations
    assert "prepare" in first.executable.stats.stages_ms and "prepare" not in second.executable.stats.stages_ms
