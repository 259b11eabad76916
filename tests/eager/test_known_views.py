"""Views that come again with the same shape and arguments: the same tensors, errors, histories and shared memory."""

import gc

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.ir.op import View
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.shape import Flip, Permute, Reshape
from jitgrad.ir.ops.slicing import Diagonal, Slice
from jitgrad.ir.ops.windows import Windows
from jitgrad.ir.registry import REGISTRY

CALLS = {
    "view": lambda x: x.view(3, -1),
    "view of a tuple": lambda x: x.view((4, 3)),
    "reshape": lambda x: x.reshape(12),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, 2),
    "unsqueeze": lambda x: x.unsqueeze(dim=1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "squeeze of two": lambda x: x[:1, :1].squeeze((0, 1)),
    "expand": lambda x: x.expand(2, -1, -1, 3),
    "select": lambda x: x.select(1, -1),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "unbind": lambda x: x.unbind(1)[1],
    "split": lambda x: x.split([1, 2], 2)[1],
    "chunk": lambda x: x.chunk(2, dim=2)[0],
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "an index": lambda x: x[1],
    "indices": lambda x: x[0, 1:, ::2],
    "a new axis": lambda x: x[:, None, ..., 0],
    "a place of an axis of length 1": lambda x: x[:, :1][0, 0],
    "flatten to itself": lambda x: x.flatten(1, 1),
    "the same type": lambda x: x[0].view(jg.float32),
}


def made(name, strided):
    x = jg.arange(12.0).view(2, 2, 3)
    x = jg.arange(24.0).view(3, 4, 2).permute(2, 1, 0)[:, :2] if strided else x
    return x


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("name", CALLS)
def test_a_view_that_comes_again_is_the_same(name, strided):
    if strided and name.startswith("view"):
        pytest.skip("refused")
    f = CALLS[name]
    seen = []
    for _ in range(3):
        x = made(name, strided)
        v = f(x)
        v = v[0] if isinstance(v, tuple) else v
        told = (v.tolist(), v.shape, v.stride(), v.storage_offset(), v._base is not None, v.data_ptr() - x.data_ptr())
        version = x._version
        with jg.no_grad():
            if 0 not in v.stride() and name != "unfold":
                v.mul_(0)
        seen.append((*told, x.tolist(), x._version - version, v._version - version))
    assert seen[0][:5] == seen[1][:5] == seen[2][:5] and seen[0][6:] == seen[1][6:] == seen[2][6:]


@pytest.mark.parametrize("name", CALLS)
def test_histories_are_the_same(name):
    f = CALLS[name]
    seen = []
    for _ in range(3):
        leaf = jg.arange(12.0).requires_grad_()
        v = f(leaf.view(2, 2, 3) * 1)
        names, node = [], v.grad_fn
        while node is not None:
            names.append(node.name())
            node = node.next_functions[0][0] if node.next_functions else None
        (v * v).sum().backward()
        seen.append((names, leaf.grad.tolist()))
        with jg.no_grad():
            assert not f(leaf.view(2, 2, 3)).requires_grad
    assert seen[0] == seen[1] == seen[2]


def test_a_write_through_a_view_that_comes_again_reaches_the_others():
    for _ in range(3):
        w = jg.ones(2, requires_grad=True)
        x = jg.zeros(2, 2)
        first, second = x[0], x.view(4)
        x[0].mul_(0).add_(w)
        assert first.requires_grad and second.requires_grad and x.requires_grad
        second.sum().backward()
        assert w.grad.tolist() == [1.0, 1.0]
        leaf = jg.zeros(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="view of a leaf"):
            leaf[0].add_(1)


def test_equal_arguments_of_other_types_are_refused_as_at_first():
    x = jg.zeros(2, 3)
    for _ in range(2):
        assert x.view(3, 2).shape == (3, 2) and x.unsqueeze(1).shape == (2, 1, 3)
        for call in (lambda: x.view(3.0, 2), lambda: x.view((3.0, 2)), lambda: x.unsqueeze(1.0)):
            with pytest.raises(TypeError):
                call()
        with pytest.raises(RuntimeError):
            x.view(4, 2)
        with pytest.raises(IndexError):
            x.unsqueeze(4)


def test_bits_of_another_type_follow_from_the_type():
    for _ in range(3):
        assert jg.zeros(2).view(jg.int32).dtype is jg.int32 and jg.zeros(2, dtype=jg.float64).view(jg.int32).shape == (
            4,
        )
        leaf = jg.ones(2, requires_grad=True)
        assert not leaf.view(jg.int32).requires_grad and leaf.view(jg.float32).requires_grad


def test_what_strides_forbid_is_refused_though_the_shape_is_known():
    for _ in range(3):
        assert jg.zeros(3, 2).view(6).shape == (6,)
        x = jg.arange(6).view(2, 3).t()
        with pytest.raises(RuntimeError, match="not compatible"):
            x.view(6)
        flat = x.reshape(6)
        flat[0] = 9
        assert x[0, 0] == 0 and flat._base is None


def test_views_that_are_gone_are_not_kept_listed():
    x = jg.zeros(4, 2)
    for _ in range(100):
        x[1], x.t(), x.view(8)
    gc.collect()
    assert len(x._storage.views) < 20


VIEWS = [
    (Reshape((3, 4)), (2, 6)), (Permute((1, 0)), (2, 3)), (Flip((1,)), (2, 3)), (BroadcastTo((2, 3, 4)), (3, 1)),
    (BroadcastTo((0, 3)), (3,)), (BroadcastTo((5,)), ()), (Slice((1, 0), (1, 2), (1, 2)), (2, 4)),
    (Slice((), (), ()), ()),
    (Diagonal(1, 0, 1), (2, 3)), (Windows((0, 1), (2, 1), (1, 2), (2, 1)), (4, 3)),
    (Windows((0,), (2,), (1,), (1,)), (3, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "shape"), VIEWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128", "bfloat16"])
@pytest.mark.parametrize("writeable", [True, False])
def test_prepared_views_are_those_of_the_reference(op, shape, dtype, writeable):
    base = np.arange(2 * int(np.prod(shape))).astype(getattr(jg, dtype).np)
    whole = base.reshape(*shape, 2)
    for x in (base[: base.size // 2].reshape(shape), whole[..., 0]):
        x = x.view()
        x.flags.writeable = writeable
        want, show = op.reference(x), op.prepared(shape)
        for _ in range(2):
            shown = show(x)
            assert shown.shape == want.shape and shown.dtype == want.dtype
            assert np.array_equal(shown.astype(complex), want.astype(complex))
            assert shown.size == 0 or np.may_share_memory(shown, x) == np.may_share_memory(want, x)
            assert all(n == 1 or s == t for n, s, t in zip(want.shape, want.strides, shown.strides, strict=True))
            if np.may_share_memory(shown, x):
                assert shown.flags.writeable == writeable


def test_each_view_with_a_short_way_is_compared_here():
    prepared = {cls for cls in REGISTRY.values() if issubclass(cls, View) and cls.prepared is not View.prepared}
    assert prepared <= {type(op) for op, _ in VIEWS}
