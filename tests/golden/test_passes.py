"""What each pass makes of a graph, as text before and after. Update with `--update-golden`, and read the difference."""

import pytest

from jitgrad.ir.parser import parse
from jitgrad.ir.passes import (
    Canonicalize,
    Decompose,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    FoldConstants,
    SimplifyAlgebra,
    simplification,
)
from jitgrad.ir.picture import draw, to_dot
from jitgrad.ir.printer import to_text
from jitgrad.ir.verify import verify

DCE = (
    EliminateDeadCode(),
    """graph dead(%x: f32[4], %y: f32[4]) -> (f32[4]) {
  %unused = exp(%y) : f32[4]
  %a = neg(%x) : f32[4]
  %chain = add(%unused, %a) : f32[4]
  %b = add(%a, %a) : f32[4]
  return %b
}""",
)
CSE = (
    EliminateCommonSubexpressions(),
    """graph twice(%x: f32[4], %y: f32[4], %seed: i64[], %n: i64[]) -> (f32[4], f32[4], f32[4], f32[4], f32[8]) {
  %a = add(%x, %y) : f32[4]
  %b = add(%y, %x) : f32[4]
  %c = sub(%x, %y) : f32[4]
  %d = sub(%y, %x) : f32[4]
  %e = maximum(%x, %y) : f32[4]
  %f = maximum(%y, %x) : f32[4]
  %u = random_uniform[shape=(4,), dtype=f32](%seed, %n) : f32[4]
  %v = random_uniform[shape=(4,), dtype=f32](%seed, %n) : f32[4]
  %w = random_uniform[shape=(4,), dtype=f32](%n, %seed) : f32[4]
  %g = mul(%a, %u) : f32[4]
  %h = mul(%v, %b) : f32[4]
  %i = concat[axis=0](%e, %f) : f32[8]
  %j = add(%g, %h) : f32[4]
  return %c, %d, %j, %w, %i
}""",
)
FOLD = (
    FoldConstants(),
    """graph constants(%x: f32[1000,1000]) -> (f32[1000,1000], f32[3], f32[2], i64[4], f32[3]) {
  %lr = full[shape=(), dtype=f32, value=0.1]() : f32[]
  %two = full[shape=(), dtype=f32, value=2.0]() : f32[]
  %a = mul(%lr, %two) : f32[]
  %b = broadcast_to[shape=(1000, 1000)](%a) : f32[1000,1000]
  %c = mul(%x, %b) : f32[1000,1000]
  %d = constant[literal=array(f32[3], [1.0, 2.0, 3.0])]() : f32[3]
  %e = exp(%d) : f32[3]
  %f = sum[axes=(0,), keepdim=true](%d) : f32[1]
  %g = broadcast_to[shape=(2,)](%f) : f32[2]
  %h = iota[shape=(4,), axis=0]() : i64[4]
  %i = add(%h, %h) : i64[4]
  %s = full[shape=(), dtype=i64, value=7]() : i64[]
  %r = random_uniform[shape=(3,), dtype=f32](%s, %s) : f32[3]
  return %c, %e, %g, %i, %r
}""",
)
CANONICAL = (
    Canonicalize(),
    """graph views(%x: f32[4,6], %y: f32[6,4]) -> (f32[4,6], f32[2,3], f32[4,6], f32[6,4], f32[4,6]) {
  %two = full[shape=(4, 6), dtype=f32, value=2.0]() : f32[4,6]
  %a = mul(%two, %x) : f32[4,6]
  %b = permute[perm=(1, 0)](%x) : f32[6,4]
  %c = permute[perm=(1, 0)](%b) : f32[4,6]
  %d = slice[starts=(1, 0), sizes=(3, 6), steps=(1, 1)](%c) : f32[3,6]
  %e = slice[starts=(0, 1), sizes=(2, 3), steps=(2, 2)](%d) : f32[2,3]
  %f = write_view[views=(permute[perm=(1, 0)],)](%x, %y) : f32[4,6]
  %g = write_view[views=(slice[starts=(0, 0), sizes=(4, 6), steps=(1, 1)], slice[starts=(0, 1), sizes=(4, 2), \
steps=(1, 1)])](%x, %h2) : f32[4,6]
  %h = permute[perm=(1, 0)](%g) : f32[6,4]
  return %a, %e, %f, %h, %g
}""".replace("%g = write", "%h1 = slice[starts=(0, 0), sizes=(4, 2), steps=(1, 1)](%x) : f32[4,2]\n  "
             "%h2 = neg(%h1) : f32[4,2]\n  %g = write"),
)  # fmt: skip
ALGEBRA = (
    SimplifyAlgebra(),
    """graph identities(%x: f32[4], %n: i64[4]) -> (f32[4], f32[4], f32[4], i64[4], bool[4]) {
  %one = full[shape=(4,), dtype=f32, value=1.0]() : f32[4]
  %zero = full[shape=(4,), dtype=f32, value=0.0]() : f32[4]
  %minus_zero = full[shape=(4,), dtype=f32, value=-0.0]() : f32[4]
  %a = mul(%x, %one) : f32[4]
  %b = add(%a, %minus_zero) : f32[4]
  %kept = mul(%b, %zero) : f32[4]
  %kept_too = add(%b, %zero) : f32[4]
  %c = neg(%b) : f32[4]
  %d = neg(%c) : f32[4]
  %none = sub(%n, %n) : i64[4]
  %e = eq(%x, %x) : bool[4]
  %f = ne(%x, %x) : bool[4]
  %g = logical_not(%f) : bool[4]
  %h = logical_and(%e, %g) : bool[4]
  return %kept, %kept_too, %d, %none, %h
}""",
)
DECOMPOSE = (
    Decompose(),
    """graph head(%x: f32[8,10]) -> (f32[8,10], f32[10]) {
  %a = softmax[axis=1](%x) : f32[8,10]
  %b = mean[axes=(0,)](%a) : f32[10]
  return %a, %b
}""",
)
ALL = (
    simplification(),
    """graph step(%w: f32[10,4], %x: f32[8,10], %g: f32[8,4]) -> (f32[10,4], f32[8,4]) {
  %lr = full[shape=(), dtype=f32, value=0.1]() : f32[]
  %minus = neg(%lr) : f32[]
  %rate = broadcast_to[shape=(10, 4)](%minus) : f32[10,4]
  %t = permute[perm=(1, 0)](%x) : f32[10,8]
  %dw = matmul(%t, %g) : f32[10,4]
  %step = mul(%rate, %dw) : f32[10,4]
  %new = add(%w, %step) : f32[10,4]
  %copy = write_view[views=()](%w, %new) : f32[10,4]
  %one = full[shape=(8, 4), dtype=f32, value=1.0]() : f32[8,4]
  %y = matmul(%x, %w) : f32[8,4]
  %z = mul(%one, %y) : f32[8,4]
  %again = matmul(%x, %w) : f32[8,4]
  %out = maximum(%z, %again) : f32[8,4]
  return %copy, %out
}""",
)

CASES = {
    "dce": DCE,
    "cse": CSE,
    "fold": FOLD,
    "canonicalize": CANONICAL,
    "algebra": ALGEBRA,
    "decompose": DECOMPOSE,
    "simplification": ALL,
}


@pytest.mark.parametrize("name", CASES)
def test_pass(name, golden):
    transform, text = CASES[name]
    before = parse(text)
    after = transform.run(before)
    verify(after)
    golden(f"passes/{name}.txt", f"{to_text(before)}\n\n{to_text(after)}\n")


def test_pictures(golden):
    graph = parse(ALL[1])
    golden("picture/drawing.txt", draw(graph) + "\n")
    golden("picture/graph.dot", to_dot(graph, "step") + "\n")
