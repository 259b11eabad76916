"""Views alias memory; writes through views touch what they show and nothing else; errors."""

import numpy as np
import pytest
from ops.sampling import numbers
from ops.shape_samples import VIEWS, WINDOWS, WRITES, fold_of, region_of

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ShapeError
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.slicing import Concat, Slice
from jitgrad.ir.ops.windows import Windows
from jitgrad.ir.ops.write import WriteView
from jitgrad.ir.types import TensorType


def f64(*shape):
    return TensorType(shape, dtypes.float64)


def layouts(array):
    """The array in several memory layouts: contiguous, transposed, reversed, every other element."""
    yield array
    if array.ndim:
        yield np.asfortranarray(array)
        yield np.ascontiguousarray(array[::-1])[::-1]
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        yield wide[..., ::2]


@pytest.mark.parametrize(("op", "shape"), VIEWS, ids=str)
def test_views_alias_their_operand_in_any_layout(op, shape):
    x = numbers(shape, dtypes.float64)
    expected = op.reference(x)
    for strided in layouts(x):
        out = op.reference(strided)
        assert isinstance(out, np.ndarray)
        np.testing.assert_array_equal(out, expected)
        if out.size and not isinstance(op, Reshape):
            assert np.shares_memory(out, strided) and out.flags.writeable


def test_reshape_is_a_view_where_strides_allow():
    x = np.zeros((4, 6))
    assert np.shares_memory(Reshape((2, 12)).reference(x), x)
    assert np.shares_memory(Reshape((2, 2, 3)).reference(x[:, ::2]), x)
    assert not np.shares_memory(Reshape((12,)).reference(x[:, :3]), x)


@pytest.mark.parametrize(("views", "shape"), WRITES, ids=str)
def test_write_sets_the_region_alone(views, shape):
    base = numbers(shape, dtypes.float64)
    region = region_of(views, f64(*shape))
    value = numbers(region.shape, dtypes.float64, seed=1)
    op = WriteView(views)
    before = base.copy()
    for strided in layouts(base):
        out = op.reference(strided, value)
        np.testing.assert_array_equal(base, before)
        assert (out != base).sum() == value.size
        for view in views:
            out = view.reference(out)
        np.testing.assert_array_equal(out, value)
    assert op.can_emit(f64(*shape), region)


def test_writes_through_overlapping_windows_run_by_the_reference():
    op = WriteView((Windows((0,), (2,), (1,), (1,)),))
    np.testing.assert_array_equal(op.reference(np.zeros(3), np.array([[1.0, 2.0], [3.0, 4.0]])), [1, 3, 4])
    assert not op.can_emit(f64(3), f64(2, 2))


@pytest.mark.parametrize(("windows", "shape"), WINDOWS, ids=str)
def test_fold_is_the_transpose_of_windows(windows, shape):
    x = numbers(shape, dtypes.float64)
    shown = windows.reference(x)
    y = numbers(shown.shape, dtypes.float64, seed=1)
    np.testing.assert_allclose(np.vdot(fold_of(windows, shape).reference(y), x), np.vdot(y, shown))


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        (Reshape((4, 2)), [(2, 3)], r"reshape: 6 elements do not fit shape \[4, 2\]\n  operand f64\[2,3\]"),
        (Permute((0, 0)), [(2, 3)], r"permute: \[0, 0\] is no order of 2 axes"),
        (
            Slice((1,), (3,), (1,)),
            [(3,)],
            r"slice: axis 0: 3 elements from 1 with step 1 do not fit",
        ),
        (Slice((1,), (3,), (-1,)), [(3,)], r"slice: axis 0: 3 elements from 1 with step -1"),
        (Concat(0), [(2, 3), (2, 4)], r"concat: operands 0 and 1 differ along axis 1: 3 and 4"),
        (Windows((0,), (3,), (1,), (1,)), [(2,)], r"windows: axis 0 has length 2, a window needs 3"),
        (
            WriteView((Slice((0,), (2,), (1,)),)),
            [(3,), (3,)],
            r"region is f64\[2\], the value is f64\[3\]",
        ),
    ],
    ids=str,
)
def test_errors_name_the_rule_and_the_types(op, shapes, message):
    with pytest.raises(ShapeError, match=message):
        op.infer(*(f64(*s) for s in shapes))
