"""Plans, and the verifier that does not trust them."""

import dataclasses
import itertools

import pytest
from codegen.formulas import CASES, build, f32, gelu, perceptron, spread

from jitgrad.codegen.arena import Arena
from jitgrad.codegen.fuse import KernelStep, fuse
from jitgrad.codegen.lower import Scratch
from jitgrad.codegen.plan import CopyStep, Place, Plan, make_plan
from jitgrad.codegen.plan_verify import overwrites_safely, verify_plan
from jitgrad.ir.errors import InternalError
from jitgrad.ir.ops.arithmetic import Add, Mul, Sub
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.creation import full_like
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.math import Exp
from jitgrad.ir.ops.shape import Permute, Reshape


def plan_of(types, formula, aliases=None) -> Plan:
    """A plan that has passed the verifier."""
    plan = make_plan(fuse(build(types, formula)), aliases or {})
    verify_plan(plan)
    return plan


@pytest.mark.parametrize("case", CASES)
def test_plans_verify(case):
    plan_of(*CASES[case])


def test_arena_gives_back_what_died():
    arena = Arena()
    blocks = [(arena.allocate(n), n) for n in (100, 300, 64, 1000)]
    spans = sorted((at, at + n) for at, n in blocks)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    for at, n in (blocks[1], blocks[0], blocks[3], blocks[2]):
        arena.release(at, n)
    size = arena.size
    assert arena.allocate(size) == 0 and arena.size == size


def test_large_values_start_with_pages():
    arena = Arena()
    small = [arena.allocate(100) for _ in range(3)]
    large = [arena.allocate(50_000) for _ in range(2)]
    assert small == [0, 128, 256] and all(at % 4096 == 0 for at in large)
    assert {arena.allocate(3000), arena.allocate(3000)} == {384, large[0] + 50_048}  # what is left between is used
    arena.release(large[0], 50_000)
    arena.release(128, 100)
    assert arena.allocate(40_000) == large[0] and arena.allocate(64) == 128
    arena.release(large[1], 50_000)
    size = arena.size
    assert arena.allocate(50_000) == large[1] and arena.size == size


def chain(b, x, w):
    """Products with maps in between, so that values live one after another."""
    for _ in range(6):
        x = b(Exp(), b(MatMul(), x, w))
    return x


def test_memory_is_reused():
    plan = plan_of([f32(16, 16)] * 2, chain)
    assert plan.arena_bytes <= 2 * 16 * 16 * 4
    assert len(plan.in_place) >= 4


def update(b, p, g):
    """A gradient step."""
    return b(Sub(), p, b(Mul(), g, full_like(b, g, 0.1)))


def test_an_update_is_written_in_place():
    plan = plan_of([f32(5, 7)] * 2, update, {0: 0})
    assert not [s for s in plan.steps if isinstance(s, CopyStep)]
    assert plan.in_place and plan.arena_bytes == 0


def test_an_update_by_a_sum_is_written_in_place():
    """A bias, updated by the sum over the batch."""

    def formula(b, p, g):
        return update(b, p, b(Sum((0,), False), g))

    for shape in ((30, 7), (7, 30, 5)):
        plan = plan_of([f32(*shape[1:]), f32(*shape)], formula, {0: 0})
        assert plan.in_place and not any(isinstance(s, CopyStep) for s in plan.steps)
    keeping = lambda b, p, g: update(b, p, b(Sum((1,), True), g))  # noqa: E731
    plan = plan_of([f32(30, 1), f32(30, 7)], keeping, {0: 0})
    assert plan.in_place and not any(isinstance(s, CopyStep) for s in plan.steps)


def test_a_mean_that_is_updated_and_read_for_every_element_is_not_written_in_place():
    def formula(b, p, x):
        new = b(Add(), p, b(Sum((0,), False), x))
        return new, b(Sum((0,), False), b(Mul(), x, spread(b, p, x)))

    plan = plan_of([f32(7), f32(30, 7)], formula, {0: 0})
    assert any(isinstance(s, CopyStep) for s in plan.steps)


def test_an_update_read_elsewhere_afterwards_is_copied_back():
    def formula(b, p, x):
        new = b(Add(), p, x)
        return new, b(MatMul(), b(Exp(), b(MatMul(), new, x)), p)

    plan = plan_of([f32(5, 5)] * 2, formula, {0: 0})
    assert (
        any(isinstance(s, CopyStep) for s in plan.steps) and plan.program.graph.inputs[0] not in plan.in_place.values()
    )


def test_a_transposed_read_forbids_writing_in_place():
    plan = plan_of([f32(5, 5)], lambda b, p: b(Add(), p, b(Permute((1, 0)), p)), {0: 0})
    assert not plan.in_place and any(isinstance(s, CopyStep) for s in plan.steps)


def test_swapped_inputs_go_through_the_arena():
    plan = plan_of([f32(5)] * 2, lambda b, x, y: (y, x), {0: 0, 1: 1})
    assert len(plan.steps) == 4


# Broken plans


def break_place(plan: Plan, operand, place: Place) -> None:
    """Move a value of the plan."""
    assert plan.places[operand] != place
    plan.places[operand] = place


def test_two_living_values_in_one_place():
    def formula(b, x, w):
        first, second = b(MatMul(), x, w), b(MatMul(), w, x)
        return b(MatMul(), first, second)

    plan = plan_of([f32(8, 8)] * 2, formula)
    first, second = (s.node.result for s in plan.steps[:2])
    break_place(plan, second, plan.places[first])
    with pytest.raises(InternalError, match=r"step 2 .* not \(any more\)"):
        verify_plan(plan)


def test_a_product_over_its_operand():
    plan = plan_of([f32(8, 8)] * 2, chain)
    result = plan.steps[0].node.result
    break_place(plan, result, Place("input", 0))
    with pytest.raises(InternalError, match="written over an operand"):
        verify_plan(plan)


def test_a_write_to_an_input_that_nothing_aliases():
    plan = plan_of([f32(8)] * 2, lambda b, x, y: b(Exp(), x))
    break_place(plan, plan.program.graph.outputs[0], Place("input", 1))
    with pytest.raises(InternalError, match="writes to input 1"):
        verify_plan(plan)


def test_an_arena_that_is_too_small():
    plan = plan_of([f32(8, 8)] * 2, chain)
    plan.arena_bytes = 64
    with pytest.raises(InternalError, match="arena of 64"):
        verify_plan(plan)


def test_steps_in_the_wrong_order():
    plan = plan_of([f32(6, 4), f32(5, 4), f32(5), f32(3, 5)], perceptron)
    plan.steps.reverse()
    plan.launches.reverse()
    with pytest.raises(InternalError, match="invalid plan"):
        verify_plan(plan)


def test_an_output_that_is_not_where_it_should_be():
    plan = plan_of([f32(8)], lambda b, x: (b(Exp(), x), b(Reshape((2, 4)), x)))
    plan.steps.pop()
    plan.launches.pop()
    with pytest.raises(InternalError, match="output 1"):
        verify_plan(plan)


def test_scratch_overwritten_between_launches():
    def formula(b, x):
        return b(Sum((0,), False), b(Exp(), x)), b(Sum((0,), False), x)

    plan = plan_of([f32(300, 4)], formula)
    launch = plan.launches[0][0]
    scratch = [o for o in launch.operands if isinstance(o, Scratch)]
    assert len(scratch) == 2
    break_place(plan, scratch[1], plan.places[scratch[0]])
    with pytest.raises(InternalError, match="invalid plan"):
        verify_plan(plan)


def test_writing_in_place_where_the_kernel_reads_on():
    """The kernel of a broadcast sum reads its operand in a second phase."""

    def formula(b, x):
        total = b(Sum((1,), True), x)
        return b(Add(), x, spread(b, total, x))

    plan = plan_of([f32(4, 6)], formula, {0: 0})
    (launch,) = plan.launches[0]
    (inout,) = [i for i, buffer in enumerate(launch.kernel.buffers) if buffer.role == "inout"]
    assert overwrites_safely(launch.kernel, inout)
    body = launch.kernel.body
    (loop,) = body
    twice = dataclasses.replace(loop, body=(*loop.body, *loop.body))
    assert not overwrites_safely(dataclasses.replace(launch.kernel, body=(twice,)), inout)


def test_kernels_name_what_they_overwrite():
    plan = plan_of([f32(5, 7)] * 2, lambda b, p, g: (update(b, p, gelu(b, g)), g), {0: 0})
    (step,) = [s for s in plan.steps if isinstance(s, KernelStep)]
    assert plan.in_place == {step.stores[0]: plan.program.graph.inputs[0]}
