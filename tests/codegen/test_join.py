"""Several executables as one native call: the results of running them one after the other."""

import numpy as np
import pytest

from jitgrad.codegen import compile_graph
from jitgrad.codegen.join import Call, can_join, join
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import InternalError
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.creation import Constant, Literal
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.sorting import Sort
from jitgrad.ir.types import TensorType

F4 = np.dtype("f4")


def product_and_sum(n):
    """`(x * y, x + y)`, the product over `x`."""
    b = Builder()
    x, y = (b.input(TensorType((n,), dtypes.float32)) for _ in range(2))
    return compile_graph(b.build([b(Mul(), x, y), b(Add(), x, y)]), aliases={0: 0})


def centre():
    """A constant times the matrix, multiplied by itself, and its sum: with an arena and a matrix product."""
    b = Builder()
    x = b.input(TensorType((16, 16), dtypes.float32))
    scaled = b(Mul(), x, b(Constant(Literal(np.arange(256, dtype="f4").reshape(16, 16)))))
    return compile_graph(b.build([b(Sum((0, 1)), b(MatMul(), scaled, scaled))]))


def joined_products(sizes):
    arrays, calls = [], []
    for k, n in enumerate(sizes):
        arrays += [np.full(n, k, "f4"), np.full(n, 2, "f4"), np.empty(n, "f4")]
        calls.append(Call(product_and_sum(n), (3 * k, 3 * k + 1), (None, 3 * k + 2)))
    return arrays, join([calls], [(a.shape, a.dtype) for a in arrays])


@pytest.mark.parametrize(
    ("sizes", "shared"),
    [([1, 3, 8, 100], False), ([20_000 + i for i in range(40)], True), ([2_000_000, 5], True)],
)
def test_the_results_of_all_calls(sizes, shared):
    arrays, run = joined_products(sizes)
    run.check(arrays)
    assert run._code.is_shared == shared
    for times in (1, 2):
        run(arrays)
        for k in range(len(sizes)):
            product, _, total = arrays[3 * k : 3 * k + 3]
            assert (product == k * 2**times).all()
            assert (total == k * 2 ** (times - 1) + 2).all()


def test_order_copies_and_different_graphs():
    first, last = product_and_sum(1), centre()
    x = np.eye(16, dtype="f4")
    arrays = [np.float32([3]), np.float32([5]), np.zeros(1, "f4"), np.zeros(1, "f4"), x, np.zeros((), "f4")]
    calls = [Call(first, (0, 1), (None, 2)), Call(first, (2, 3), (None, 0)), Call(last, (4,), (5,))]
    run = join([calls[:1], calls[1:]], [(a.shape, a.dtype) for a in arrays], [(2, [3])])
    run.check(arrays)
    run(arrays)
    assert [a.item() for a in arrays[:4]] == [16, 5, 64, 8]
    assert arrays[5] == (last([x])[0])


def test_strided_arrays_and_what_is_refused():
    arrays, run = joined_products([4])
    memory = np.ones(8, "f4")
    strided = [memory[::2], *arrays[1:]]
    run.check(strided)
    run(strided)
    assert memory.tolist() == [2, 1, 2, 1, 2, 1, 2, 1]
    frozen = np.ones(4, "f4")
    frozen.flags.writeable = False
    for wrong in ([np.ones(5, "f4"), *arrays[1:]], [np.ones(4), *arrays[1:]], arrays[1:], [frozen, *arrays[1:]]):
        with pytest.raises(InternalError):
            run.check(wrong)


def test_what_needs_the_host_can_not_be_joined():
    b = Builder()
    x = b.input(TensorType((5,), dtypes.float32))
    sort = compile_graph(b.build(b.emit(Sort(0, False), x)))
    assert can_join(centre())
    assert not can_join(sort)
