"""Other sizes of a graph that is known: the plan is the one that compiling anew gives, and so are the results."""

import numpy as np
import pytest
from codegen.resized_plans import own_table
from control_graphs import numbers, repeated, scanned

from jitgrad.codegen import compile as codegen
from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.options import CompileOptions
from jitgrad.codegen.resize.outline import Outlines
from jitgrad.ir import dtypes
from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import InternalError, ShapeError
from jitgrad.ir.interpreter import run
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.indexing import TakeNd
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.parser import parse
from jitgrad.ir.tracked import Changed, Recording, computed
from jitgrad.ir.types import TensorType

SIZES = (8, 7, 6, 1, 5, 0, 2, 64, 63, 300, 9, 1000)
PROGRAMS = {
    "pointwise": "graph(%x: f32[{n},3]) -> (f32[{n},3]) { %y = tanh(%x) : f32[{n},3] %z = mul(%y, %x) : f32[{n},3]"
    " return %z }",
    "a number like a length": "graph(%x: f32[3,{n}]) -> (f32[3], f32[3]) {"
    " %c = full[shape=(3,), dtype=f32, value={n}.0]() : f32[3]"
    " %s = sum[axes=(1,), keepdim=false](%x) : f32[3] %y = div(%s, %c) : f32[3] return %c, %y }",
    "softmax": "graph(%x: f32[{n},33]) -> (f32[{n},33]) { %y = softmax[axis=1](%x) : f32[{n},33] return %y }",
    "sums": "graph(%x: f32[{n},33]) -> (f32[33], f32[{n}], f32[]) {"
    " %a = sum[axes=(0,), keepdim=false](%x) : f32[33] %b = sum[axes=(1,), keepdim=false](%x) : f32[{n}]"
    " %c = sum[axes=(0, 1), keepdim=false](%x) : f32[] return %a, %b, %c }",
    "reshape": "graph(%x: f32[{n},4,6]) -> (f32[{m},8], f32[4,{n}]) { %a = reshape[shape=({m}, 8)](%x) : f32[{m},8]"
    " %s = sum[axes=(2,), keepdim=false](%x) : f32[{n},4] %b = permute[perm=(1, 0)](%s) : f32[4,{n}]"
    " return %a, %b }",
    "products": "graph(%x: f32[{n},40], %w: f32[40,70]) -> (f32[{n},70], f32[{n},{n}], f32[40,70]) {"
    " %y = matmul(%x, %w) : f32[{n},70] %t = permute[perm=(1, 0)](%x) : f32[40,{n}]"
    " %z = matmul(%x, %t) : f32[{n},{n}] %g = matmul(%t, %y) : f32[40,70] return %y, %z, %g }",
    "chain": "graph(%x: f32[{n},40], %w: f32[40,40]) -> (f32[{n},40]) { %y = matmul(%x, %w) : f32[{n},40]"
    " %e = exp(%y) : f32[{n},40] %z = matmul(%e, %w) : f32[{n},40] return %z }",
    "sorted": "graph(%x: f32[{n},5]) -> (f32[{n},5]) { %s, %i = sort[axis=0](%x) : f32[{n},5], i64[{n},5]"
    " %y = add(%s, %x) : f32[{n},5] return %y }",
}


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """All plans for other sizes are verified."""
    return own_table(monkeypatch)


def program(name, n):
    """One of the programs at a size."""
    return parse(PROGRAMS[name].replace("{n}", str(n)).replace("{m}", str(3 * n)))


def arrays_of(graph):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(v.shape).astype(v.dtype) for v in graph.inputs]


def check(graph, arrays):
    """Resized or not, against a compilation that knows nothing, to the bit; gives whether it was resized."""
    anew = codegen._compile_anew(graph, "anew", {}, CompileOptions(), codegen.ignore, codegen.CPU)
    made = compile_graph(graph)
    for a, b in zip(made(arrays), anew(arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    return made, anew


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_give_what_compiling_anew_gives(name, table):
    resized = 0
    for n in SIZES:
        graph = program(name, n)
        made, anew = check(graph, arrays_of(graph))
        if "resize" in made.stats.stages_ms:
            resized += 1
            assert made.running.arena_bytes == anew.running.arena_bytes
            assert [type(s) for s in made.running.steps] == [type(s) for s in anew.running.steps]
            assert made.plan.steps and made.dump()["graph"]
    assert resized >= len(SIZES) - 5
    assert not any(k.failures for k in table._known.values())


def test_numbers_that_were_alike_by_chance(table):
    """Channels that equal a length at both sizes are that number; where they don't, the recorded convolution raises."""

    def convolution(n, channels):
        x, w = f"f32[{n},{channels},12]", f"f32[8,{channels},3]"
        fields = "stride=(1,), padding=(1,), dilation=(1,), groups=1"
        return parse(
            f"graph(%x: {x}, %w: {w}) -> (f32[{n},8,12]) {{ %y = conv[{fields}](%x, %w) : f32[{n},8,12] return %y }}",
        )

    for n, channels in ((9, 9), (16, 16), (20, 20), (5, 16), (16, 5), (1, 24)):
        graph = convolution(n, channels)
        check(graph, arrays_of(graph))
    assert not any(k.failures for k in table._known.values())


def test_lengths_that_equal_others_by_chance_take_the_same_template(table):
    """A batch that equals channels, and gradients of weights that are of one strand or of several."""

    def gradients(n):
        fields = "stride=(1,), padding=(1,), dilation=(1,), groups=1"
        forward = parse(
            f"graph(%x: f32[{n},16,40], %w: f32[32,16,3]) -> (f32[{n},32,40]) {{"
            f" %y = conv[{fields}](%x, %w) : f32[{n},32,40] return %y }}"
        )
        return gradient_graph(forward, [0, 1])

    for n in (24, 40, 32, 16, 3, 200):
        graph = gradients(n)
        made, _ = check(graph, arrays_of(graph))
        assert n == 24 or "resize" in made.stats.stages_ms
    (known,) = table._known.values()
    assert len(known.templates) == 1 and not known.failures


def test_what_was_recorded_may_raise_at_other_numbers():
    def halves(n):
        if n % 2:
            raise ShapeError("odd")
        return n // 2

    recording = Recording()
    half = computed(halves, recording.symbol(4))
    assert recording.at([8])[half.register] == 4
    with pytest.raises(Changed):
        recording.at([3])


@pytest.mark.parametrize("limit", [0, 3, 5, 20])
def test_loops_of_unknown_length(limit, table):
    for count in (2, limit):
        graph = gradient_graph(repeated(count), [0, 1])
        arrays = [np.array([1.0, 0.5]), np.array([0.3, 0.2]), np.array([1.0, -2.0])]
        for a, b in zip(compile_graph(graph)(arrays), run(graph, arrays), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def test_scans(table):
    for length in (3, 5, 4, 0, 9, 1):
        graph = gradient_graph(scanned(length, with_residuals=True, dtype=dtypes.float32), [0, 1, 2, 3])
        check(graph, numbers(graph))


def test_a_known_structure_compiles_no_kernel_and_runs_no_pass(table, monkeypatch):
    def compiled(n):
        return compile_graph(program("softmax", n))

    compiled(20), compiled(21)
    monkeypatch.setattr(codegen, "prepare", None)
    assert [compiled(n).stats.compiled for n in (22, 40, 19)] == [0, 0, 0]


def test_plans_are_verified_at_their_sizes(table):
    for n in (20, 21):
        compile_graph(program("chain", n))
    (template,) = [t for known in table._known.values() for t in known.templates]
    template.plan.arena_bytes = 64
    with pytest.raises(InternalError, match="an arena of 64"):
        compile_graph(program("chain", 33))


def test_complex_zeros_of_either_sign_are_other_structures():
    def structure(imaginary):
        op = Full((3,), dtypes.complex128, complex(0.0, imaginary))
        b = Builder()
        return Outlines().of(b.build([b(op)])).structure

    assert structure(-0.0) != structure(0.0) == structure(0.0)


def test_other_axes_are_other_structures(table):
    """An axis is no size: a plan for one tells nothing of another, and nothing stands in for its number."""

    def taken(axis, n):
        b = Builder()
        x = b.input(TensorType((n, n, n), dtypes.float32))
        at = b.input(TensorType((3,), dtypes.int64))
        turned = b(Permute((axis, (axis + 1) % 3, (axis + 2) % 3)), x)
        return b.build([b(TakeNd((axis,)), x, at), b(Sum((axis,)), x), turned])

    for axis, n in ((0, 4), (1, 4), (2, 5), (1, 6), (0, 7), (2, 8)):
        graph = taken(axis, n)
        check(graph, [np.random.default_rng(n).standard_normal((n, n, n), np.float32), np.array([1, 0, 3])])
    assert not any(k.failures for k in table._known.values())
    assert len({structure for structure, _ in table._known}) == 3
