"""Indices out of range, repeated places, integer types; element rules, which no kernel uses yet."""

import numpy as np
import pytest
from ops.element_rules import run_elements
from ops.samples import samples_of

from jitgrad.ir import dtypes
from jitgrad.ir.errors import DTypeError, ShapeError
from jitgrad.ir.ops.indexing import Gather, IndexAdd, IndexPut, IndexSelect, Scatter, ScatterAdd, TakeNd
from jitgrad.ir.types import TensorType


@pytest.mark.parametrize("name", ["gather", "index_select", "take_nd"])
def test_element_rules(name):
    for sample in samples_of(name):
        if all(not t.dtype.is_complex for t in sample.types):
            (result,) = sample.op.infer(*sample.types)
            want = sample.op.reference(*sample.arrays)
            np.testing.assert_array_equal(run_elements(sample.op, sample.arrays, result), want)


@pytest.mark.parametrize("op", [Scatter(0), IndexPut((0,))], ids=str)
def test_of_values_put_to_one_place_the_last_stays(op):
    index, values = np.array([2, 0, 0, 2]), np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(op.reference(np.zeros(3), index, values), [3, 0, 4])


def test_a_table_of_indices_is_written_in_row_major_order():
    index, values = np.array([[2, 0], [0, 2]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(IndexPut((0,)).reference(np.zeros(3), index, values), [3, 0, 4])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_any_integer_type_indexes(dtype):
    np.testing.assert_array_equal(TakeNd((0,)).reference(np.arange(6.0), np.array([5, 0], dtype)), [5, 0])


@pytest.mark.parametrize(
    "call",
    [
        lambda i: Gather(0).reference(np.zeros((3, 1)), np.array([[i]])),
        lambda i: ScatterAdd(0).reference(np.zeros((3, 1)), np.array([[i]]), np.zeros((1, 1))),
        lambda i: Scatter(0).reference(np.zeros((3, 1)), np.array([[i]]), np.zeros((1, 1))),
        lambda i: IndexSelect(0).reference(np.zeros(3), np.array([i])),
        lambda i: IndexAdd(0).reference(np.zeros(3), np.array([i]), np.zeros(1)),
        lambda i: TakeNd((0,)).reference(np.zeros(3), np.array([i])),
        lambda i: IndexPut((0,)).reference(np.zeros(3), np.array([i]), np.zeros(1)),
        lambda i: IndexPut((0,), True).reference(np.zeros(3), np.array([i]), np.zeros(1)),
    ],
)
@pytest.mark.parametrize("index", [3, -4, 2**40])
def test_out_of_range_raises(call, index):
    with pytest.raises(IndexError, match=f"index {index} is out of bounds for dimension 0 with size 3"):
        call(index)


@pytest.mark.parametrize("dtype", [np.float16, dtypes.bfloat16.np, np.float32, np.uint8, np.complex64])
def test_sums_at_repeated_places_are_kept_in_a_wide_type(dtype):
    source = np.full(200, 1, dtype)
    out = IndexAdd(0).reference(np.zeros(2, dtype), np.zeros(200, np.int64), source)
    np.testing.assert_array_equal(out, np.array([200, 0], dtype))


def test_errors_name_the_rule():
    def typed(*shape, dtype=dtypes.float64):
        return TensorType(shape, dtype)

    index = dtypes.int64
    with pytest.raises(ShapeError, match=r"gather: index \[3, 5\] is not within \[3, 4\] apart from axis 0"):
        Gather(0).infer(typed(3, 4), typed(3, 5, dtype=index))
    with pytest.raises(DTypeError, match="take_nd: the index is float64, not an integer type"):
        TakeNd((0,)).infer(typed(3, 4), typed(3))
    with pytest.raises(ShapeError, match=r"index_put: the source's shape is \[4\], the region's \[3, 4\]"):
        IndexPut((0,)).infer(typed(3, 4), typed(3, dtype=index), typed(4))
