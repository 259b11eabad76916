"""What fuses with what."""

import pytest
from codegen.formulas import CASES, build, f32, softmax

from codegen import formulas
from jitgrad.codegen.fuse import HostStep, KernelStep, ProductStep, Program, Template, fuse
from jitgrad.codegen.options import DEFAULT, CompileOptions
from jitgrad.codegen.prepare import prepare
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum
from jitgrad.ir.ops.check import CheckIndex
from jitgrad.ir.ops.indexing import IndexSelect
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.math import Exp
from jitgrad.ir.ops.reduction import Amax
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.windows import Windows
from jitgrad.ir.types import TensorType


def shapes_of(program: Program) -> list[str]:
    """The templates of kernels, and the other kinds of steps."""
    names = {ProductStep: "product", HostStep: "host"}
    return [s.group.template.value if isinstance(s, KernelStep) else names[type(s)] for s in program.steps]


@pytest.mark.parametrize(
    ("case", "steps"),
    [
        ("gelu", ["map"]),
        ("softmax rows", ["row"]),
        ("layer norm", ["row"]),
        ("log softmax", ["row", "split"]),
        ("relu backward", ["column"]),
        ("perceptron", ["product", "map", "product"]),
        ("moments", ["row"]),
        ("softmax columns", ["column", "column", "map"]),
        ("bias", ["map"]),
        ("pieces", ["map"]),
    ],
)
def test_steps(case, steps):
    assert shapes_of(fuse(build(*CASES[case]))) == steps


@pytest.mark.parametrize(
    ("formula", "steps"),
    [
        (lambda b, x: softmax(b, x), ["map", "row"]),
        (lambda b, x: (x, b(Sum((1,), False), x)), ["map", "row"]),
        (lambda b, x: (e := b(Exp(), x), b(Sum((1,), False), e)), ["map", "row"]),
        (lambda b, x: (b(Sum((1,), False), x), b(Amax((1,), False), x)), ["row"]),
        (lambda b, x: b(Sum((0,), False), b(Exp(), x)), ["column"]),
    ],
)
def test_transpositions_are_written_where_rows_are_read_again(formula, steps):
    """Not where they are folded once, which goes along memory."""
    program = fuse(build([f32(8, 9)], lambda b, x: formula(b, b(Permute((1, 0)), x))))
    assert shapes_of(program) == steps
    assert shapes_of(fuse(build([f32(8, 8)], lambda b, x: formula(b, b(Permute((1, 0)), x))))) == steps


def test_what_follows_from_a_fold_needs_no_transposition():
    """The result is read back in the order in which its operand lies."""

    def formula(b, x):
        x = b(Permute((1, 0)), x)
        total = b(BroadcastTo((9, 8)), b(Sum((1,), True), x))
        return b(Permute((1, 0)), b(Mul(), x, total))

    assert shapes_of(fuse(build([f32(8, 9)], formula))) == ["row", "map"]


def test_only_what_others_need_is_stored():
    (step,) = fuse(build(*CASES["softmax rows"])).steps
    assert len(step.group.roots) > 1 and len(step.stores) == 1


def test_a_map_joins_a_reduction_that_reads_it():
    def formula(b, x, y):
        total = b(Add(), x, y)
        return total, b(Sum((1,), False), total)

    (step,) = fuse(build([f32(8, 9)] * 2, formula)).steps
    assert step.group.template is Template.ROW and len(step.stores) == 2


def test_groups_do_not_wait_for_each_other():
    """`e` and `f` could share a kernel but for the product between them."""

    def formula(b, x, y):
        e = b(Exp(), b(Exp(), x))
        product = b(MatMul(), e, y)
        return e, b(Add(), b(Mul(), product, e), e)

    assert shapes_of(fuse(build([f32(8, 8)] * 2, formula))) == ["map", "product", "map"]


def test_an_alias_of_a_group_is_not_read_inside_it():
    def formula(b, x, y):
        e = b(Exp(), x)
        return e, b(Add(), b(Reshape((6, 4)), e), y)

    assert shapes_of(fuse(build([f32(4, 6), f32(6, 4)], formula))) == ["map", "map"]


def test_products_read_through_views():
    def formula(b, x, y):
        wide = b(BroadcastTo((5, *y.shape)), y)
        return b(MatMul(), b(Permute((1, 0, 2)), x), b(Permute((0, 2, 1)), wide))

    assert shapes_of(fuse(build([f32(3, 5, 4), f32(6, 4)], formula))) == ["product"]


def test_a_transposed_product_is_a_product_of_transposed():
    graph = build([f32(5, 4), f32(4, 6)], lambda b, x, y: b(Exp(), b(Permute((1, 0)), b(MatMul(), x, y))))
    assert shapes_of(fuse(prepare(graph, DEFAULT))) == ["product", "map"]
    prepared = prepare(graph, DEFAULT)
    assert all(n.operands[0] in prepared.inputs for n in prepared.nodes if isinstance(n.op, Permute))


def test_expensive_values_are_not_computed_again_for_each_row():
    def formula(b, x, y):
        return b(Add(), x, b(BroadcastTo(x.shape), b(Exp(), y)))

    assert shapes_of(fuse(build([f32(8, 9), f32(9)], formula))) == ["map", "map"]


def test_long_chains_are_cut():
    def formula(b, x):
        for _ in range(200):
            x = b(Exp(), x)
        return x

    steps = fuse(build([f32(8)], formula)).steps
    assert 1 <= len(steps) < 10


def test_without_fusion_every_pointwise_node_is_a_kernel():
    assert len(fuse(build([f32(4)], formulas.gelu), CompileOptions(fuse=False)).steps) >= 8


def test_patches_of_an_image_are_copied_once():
    """Windows, split into groups, axes moved, put together as a matrix: one kernel and an alias."""

    def formula(b, x, w):
        n, c, h, _ = x.shape
        windows = b(Windows((2, 3), (3, 3), (1, 1), (1, 1)), b(Mul(), x, x))
        grouped = b(Reshape((n, 2, c // 2, *windows.shape[2:])), windows)
        patches = b(Permute((1, 2, 5, 6, 0, 3, 4)), grouped)
        return b(MatMul(), w, b(Reshape((2, c // 2 * 9, n * (h - 2) ** 2)), patches))

    assert shapes_of(fuse(build([f32(2, 4, 6, 6), f32(2, 5, 18)], formula))) == ["map", "product"]


def test_checks_of_inputs_come_first_so_that_native_code_is_one_piece():
    b = Builder()
    x, at = b.input(f32(8, 8)), b.input(TensorType((4,), dtypes.int64))
    y = b(Exp(), b(MatMul(), x, x))
    checked = b(CheckIndex("index_select", 0, 8), at)
    program = fuse(prepare(b.build([b(IndexSelect(0), y, checked)]), CompileOptions()))
    assert shapes_of(program)[0] == "host" and "host" not in shapes_of(program)[1:]
