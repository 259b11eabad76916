"""Native code that runs a graph only where words in memory and arrays are what they have to be."""

import numpy as np
import pytest

from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.fitted_call import Array, Word, fitted_call, looks
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import InternalError
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.sorting import Sort
from jitgrad.ir.types import TensorType
from jitgrad.object_layout import CLASS, DICT_LENGTH, slot_offset

F32 = np.dtype(np.float32)


class Holder:
    __slots__ = ("array", "other", "table")


def product():
    b = Builder()
    x, y = (b.input(TensorType((2, 3), dtypes.float32)) for _ in range(2))
    return compile_graph(b.build([b(Mul(), x, y), b(Add(), x, y)]), aliases={1: 1})


def test_it_computes_and_writes_what_the_executable_does():
    holder, at = Holder(), slot_offset(Holder, "array")
    x, y = (np.arange(6, dtype=np.float32).reshape(2, 3) + k for k in range(2))
    holder.array = y
    inputs = [Array(0, (2, 3), F32, is_item=True), Array(holder, (2, 3), F32, slots=(at,))]
    call = fitted_call(product(), [], inputs, [Array(1, (), F32, is_item=True)], 2)
    assert call.places == (-1, 1) and call.made == (((2, 3), F32),)
    out, number = np.empty((2, 3), np.float32), np.zeros((), np.float32)
    expected = x * y, x + y
    assert call.run([x, number, out]) is True
    np.testing.assert_array_equal(out, expected[0])
    np.testing.assert_array_equal(y, expected[1])
    assert call.run([x, np.zeros(1, np.float32), out]) is False
    assert call.run([x, number]) is False
    np.testing.assert_array_equal(y, expected[1])
    holder.array = "no array"
    assert call.run([x, number, out]) is False
    del holder.array
    assert call.run([x, number, out]) is False


def read_only(x):
    x.flags.writeable = False
    return x


UNFIT = {
    "shape": np.zeros((3, 2), F32), "axes": np.zeros((6,), F32), "dtype": np.zeros((2, 3)),
    "strides": np.zeros((3, 2), F32).T, "step": np.zeros((2, 6), F32)[:, ::2], "class": np.zeros((2, 3), F32).tolist(),
    "read-only": read_only(np.zeros((2, 3), F32)), "subclass": np.zeros((2, 3), F32).view(np.recarray),
    "bytes": np.zeros((2, 3), ">f4"), "aligned": np.zeros(25, np.uint8)[1:].view(F32).reshape(2, 3),
}  # fmt: skip


@pytest.mark.parametrize("what", UNFIT)
def test_arrays_that_do_not_fit(what):
    check = looks([], [Array(0, (2, 3), F32, is_item=True)], 1).run
    assert check([np.zeros((2, 3), F32)]) is True
    assert check([UNFIT[what]]) is False


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_arrays_whose_axes_lie_in_another_order(order):
    shape = (2, 3, 4)
    check = looks([], [Array(0, shape, F32, is_item=True, order=order)], 1).run
    for lies in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)):
        held = np.zeros([shape[a] for a in lies], F32)
        array = held.transpose(np.argsort(lies))
        assert array.shape == shape and check([array]) is (lies == order)
        wide = np.zeros([2 * n for n in held.shape], F32)[: held.shape[0], : held.shape[1], : held.shape[2]]
        assert check([wide.transpose(np.argsort(lies))]) is False
    other = np.zeros((4, 3, 2), F32).transpose(np.argsort(order))
    assert other.shape == shape or check([other]) is False


def test_arrays_with_gaps():
    held = np.zeros((3, 7), F32)
    check = looks([], [Array(0, (3, 4), F32, is_item=True, order=(0, 1), lengths=(3, 7))], 1).run
    assert check([held[:, :4]]) and check([held[:, 2:6]]) and check([np.zeros((5, 7), F32)[1:4, 3:]])
    for other in (held[:, :5], held[:2, :4], np.zeros((3, 4), F32), np.zeros((3, 8), F32)[:, :4], held[:, ::2]):
        assert check([other]) is False
    check = looks([], [Array(0, (4, 3), F32, is_item=True, order=(1, 0), lengths=(3, 7))], 1).run
    assert check([held[:, :4].T]) and check([np.zeros((4, 3), F32)]) is False and check([held[:, :4]]) is False


def test_words():
    holder, value, table = Holder(), object(), {}
    holder.other, holder.table = value, table
    at, below = slot_offset(Holder, "other"), slot_offset(Holder, "table")
    words = [Word(0, CLASS, id(Holder), is_item=True), Word(0, at, id(value), is_item=True)]
    check = looks([*words, Word(holder, below, 0, then=DICT_LENGTH), Word(holder, 0, 0, mask=0)], [], 1).run
    assert check([holder]) is True
    assert check([1.0]) is False and check([holder, holder]) is False
    table["x"] = 1
    assert check([holder]) is False
    holder.table = {}
    assert check([holder]) is True
    del holder.table
    assert check([holder]) is True
    holder.other = object()
    assert check([holder]) is False


def test_what_is_for_the_executable_itself():
    b = Builder()
    x = b.input(TensorType((4,), dtypes.float32))
    executable = compile_graph(b.build(list(b.emit(Sort(0, False), x))))
    assert fitted_call(executable, [], [Array(0, (4,), F32, is_item=True)], [], 1) is None
    with pytest.raises(InternalError, match="other arrays"):
        fitted_call(product(), [], [Array(k, (3, 2), F32, is_item=True) for k in range(2)], [], 2)
