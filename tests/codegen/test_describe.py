"""Descriptions of plans, and the times of their steps."""

import numpy as np
import pytest

from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.describe import describe_steps, kernels_of, lifetimes
from jitgrad.codegen.timing import example_input, time_steps
from jitgrad.ir.errors import InternalError
from jitgrad.ir.parser import parse

TEXT = """graph(%x: f32[60,32], %w: f32[16,32], %b: f32[16], %i: i64[60]) -> (f32[60,16], f32[60], i64[60]) {
  %t = permute[perm=(1, 0)](%w) : f32[32,16]
  %m = matmul(%x, %t) : f32[60,16]
  %bb = broadcast_to[shape=(60, 16)](%b) : f32[60,16]
  %z = add(%m, %bb) : f32[60,16]
  %s = softmax[axis=1](%z) : f32[60,16]
  %r = sum[axes=(1,)](%s) : f32[60]
  %c = check_range[of="test", low=0, high=16, ignored=-100](%i) : i64[60]
  return %s, %r, %c
}"""


@pytest.fixture(scope="module")
def executable():
    return compile_graph(parse(TEXT), name="described")


def test_steps(executable):
    steps = describe_steps(executable.plan)
    by_kind = {s.kind: s for s in steps}
    assert set(by_kind) >= {"kernel", "host"} and len(steps) == len(executable.plan.steps)
    (product,) = [s for s in steps if [n.op.name for n in s.nodes] == ["tile_product"]]
    assert product.flops == 2 * 60 * 32 * 16 and product.shape.startswith("product in tiles of ")
    kernel = max(steps, key=lambda s: len(s.nodes))
    assert {"add", "exp", "amax"} <= {n.op.name for n in kernel.nodes}
    assert "row over [60, 16], reducing axis 1" in kernel.shape and kernel.estimate_us > 0 and kernel.bytes > 0
    assert {a.role for a in kernel.accesses} >= {"in", "out"}
    assert [n.op.name for n in by_kind["host"].nodes] == ["check_range"]
    assert {x.kernel for s in steps for x in s.launches} == set(range(len(kernels_of(executable.plan))))


def test_a_batch_of_products():
    text = """graph(%x: f32[3,60,32], %w: f32[3,16,32]) -> (f32[3,60,16]) {
      %t = permute[perm=(0, 2, 1)](%w) : f32[3,32,16]
      %m = matmul(%x, %t) : f32[3,60,16]
      return %m
    }"""
    (product,) = describe_steps(compile_graph(parse(text)).plan)
    assert product.kind == "blas" and product.flops == 2 * 3 * 60 * 32 * 16
    assert [n.op.name for n in product.nodes] == ["permute", "matmul"]  # what BLAS reads through is part of it


def test_members_stop_at_what_is_read_from_memory(executable):
    for step in describe_steps(executable.plan):
        if step.kind == "kernel":
            assert not any(n.op.name == "matmul" for n in step.nodes)


def test_lifetimes(executable):
    plan = executable.plan
    lives = lifetimes(plan)
    assert max((x.offset + x.nbytes for x in lives), default=0) <= plan.arena_bytes
    assert all(0 <= x.first <= x.last < len(plan.steps) for x in lives)
    shown = {x.value for x in lives if x.value is not None}
    assert shown == {v for v, p in plan.places.items() if p.region == "arena" and hasattr(v, "type") and v.type.nbytes}


def test_times(executable):
    timing = time_steps(executable, runs=5)
    assert timing.runs == 5 and len(timing.steps) == len(executable.plan.steps)
    assert all(t >= 0 for t in timing.steps) and timing.call > 0
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(v.type.shape).astype(v.type.dtype.np) for v in executable.plan.program.graph.inputs]
    arrays[3] = np.zeros(60, np.int64)
    kept = [a.copy() for a in arrays]
    time_steps(executable, arrays, runs=3, seconds=0.0)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, kept, strict=True))
    with pytest.raises(InternalError, match="takes 4 inputs"):
        time_steps(executable, arrays[:2])


def test_times_of_a_plan_that_writes_into_its_inputs():
    text = "graph(%p: f32[8], %g: f32[8]) -> (f32[8]) {\n %q = sub(%p, %g) : f32[8]\n return %q\n}"
    run = compile_graph(parse(text), aliases={0: 0})
    p, g = np.ones(8, np.float32), np.ones(8, np.float32)
    time_steps(run, [p, g], runs=4)
    assert p.tolist() == [1.0] * 8


def test_example_inputs():
    graph = parse("graph(%x: f32[3], %i: i64[2], %c: c64[2], %b: bool[2]) -> () {\n return\n}")
    x, i, c, b = map(example_input, graph.inputs)
    assert x.min() > 0 and x.max() <= 1 and not i.any() and not c.any() and not b.any()
    assert [a.dtype.name for a in (x, i, c, b)] == ["float32", "int64", "complex64", "bool"]
