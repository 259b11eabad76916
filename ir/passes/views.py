"""Algebra of views: which are identities, what two in a row make, and how to undo them."""

from __future__ import annotations

from .. import scalar
from ..op import View
from ..ops.broadcast import BroadcastTo
from ..ops.shape import Flip, Permute, Reshape
from ..ops.slicing import Slice
from ..tracked import always_equal, happens_to_be
from ..types import TensorType


def is_identity(view: View, operand: TensorType) -> bool:
    """Whether `view` shows each element of `operand` where it is."""
    match view:
        case Reshape(shape=shape) | BroadcastTo(shape=shape):
            return always_equal(shape, operand.shape)
        case Permute(perm=perm):
            return perm == tuple(range(operand.ndim))
        case Flip(axes=axes):
            return all(happens_to_be(operand.shape[a], 1) or happens_to_be(operand.shape[a], 0) for a in axes)
        case Slice(starts=starts, sizes=sizes, steps=steps):
            moves = zip(starts, steps, sizes, strict=True)
            return always_equal(sizes, operand.shape) and all(
                always_equal(n, 0) or (always_equal(s, 0) and (d == 1 or always_equal(n, 1))) for s, d, n in moves
            )
    return False


def compose(inner: View, outer: View, operand: TensorType) -> View | None:
    """One view that shows of `operand` what `outer` shows of `inner`, or None.

    >>> from jitgrad.ir import dtypes
    >>> compose(Slice((2,), (8,), (1,)), Flip((0,)), TensorType((10,), dtypes.float32))
    slice[starts=(9,), sizes=(8,), steps=(-1,)]
    """
    match inner, outer:
        case (Reshape(), Reshape()) | (BroadcastTo(), BroadcastTo()):
            return outer
        case Permute(perm=first), Permute(perm=second):
            return Permute(tuple(first[a] for a in second))
        case Flip(axes=first), Flip(axes=second):
            return Flip(tuple(sorted(set(first) ^ set(second))))
        case (Slice() | Flip(), Slice() | Flip()):
            (shown,) = inner.infer(operand)
            return _composed_slices(_as_slice(inner, operand), _as_slice(outer, shown))
    return None


def _as_slice(view: View, operand: TensorType) -> Slice:
    if isinstance(view, Slice):
        return view
    assert isinstance(view, Flip)
    flipped = [a in view.axes and n > 0 for a, n in enumerate(operand.shape)]
    starts = tuple(n - 1 if f else 0 for f, n in zip(flipped, operand.shape, strict=True))
    return Slice(starts, operand.shape, tuple(-1 if f else 1 for f in flipped))


def _composed_slices(inner: Slice, outer: Slice) -> Slice:
    starts, steps = [], []
    for s1, d1, s2, d2, n in zip(inner.starts, inner.steps, outer.starts, outer.steps, outer.sizes, strict=True):
        is_run = d1 == d2 == 1  # whatever its length
        starts.append(0 if always_equal(n, 0) else s1 + d1 * s2 if is_run or n else 0)
        steps.append(1 if is_run or n <= 1 else d1 * d2)
    return Slice(tuple(starts), outer.sizes, tuple(steps))


def inverse(view: View, operand: TensorType) -> View | None:
    """The view that undoes `view` of `operand`, where that shows each element once; else None."""
    match view:
        case Reshape():
            return Reshape(operand.shape)
        case Permute():
            return view.inverse()
        case Flip():
            return view
    return None


def shows_once(views: tuple[View, ...], operand: TensorType) -> bool:
    """Whether a chain of views shows no element of `operand` twice."""
    for view in views:
        probe = tuple(scalar.const(0) for _ in operand.shape)
        if view.preimage(probe, operand) is None:
            return False
        (operand,) = view.infer(operand)
    return True


def simplified(views: tuple[View, ...], operand: TensorType) -> tuple[View, ...]:
    """A chain of views of `operand` without identities, and composed where possible."""
    out: list[View] = []
    types = [operand]
    for view in views:
        if is_identity(view, types[-1]):
            continue
        merged = compose(out[-1], view, types[-2]) if out else None
        if merged is not None:
            out.pop()
            types.pop()
            view = merged
        if not is_identity(view, types[-1]):
            out.append(view)
            types.extend(view.infer(types[-1]))
    return tuple(out)
