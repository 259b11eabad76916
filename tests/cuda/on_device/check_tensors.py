"""Tensors on a device: making, moving, reading, indexing, writing, views, errors."""

import copy
import io
import pickle

import numpy as np
import pytest
from comparing import moved, same

import jitgrad as jg
from jitgrad.nn import functional as F

DTYPES = [
    jg.bool, jg.uint8, jg.int8, jg.int16, jg.int32, jg.int64, jg.float16, jg.bfloat16, jg.float32, jg.float64,
    jg.complex64, jg.complex128,
]  # fmt: skip


def test_first_of_all():
    y = jg.ones(4, device="cuda") + 1
    assert y.device == jg.device("cuda:0") and y.tolist() == [2.0] * 4
    assert y.is_cuda and not y.is_cpu and y.get_device() == 0 and jg.zeros(1).get_device() == -1
    assert repr(y) == "tensor([2., 2., 2., 2.], device='cuda:0')"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_there_and_back(dtype):
    for shape in ((), (0, 3), (1,), (3, 4), (2, 0, 5)):
        x = (jg.arange(24)[: int(np.prod(shape))].reshape(shape) % 2 == 0 if dtype is jg.bool
             else jg.arange(24)[: int(np.prod(shape))].reshape(shape).to(dtype))  # fmt: skip
        there = x.to("cuda")
        same(there, x)
        assert there.cuda() is there and x.cpu() is x and there.to(there.device) is there
        same(there.clone(), x)
        same(there.to("cpu").to(device="cuda", dtype=dtype), x)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: jg.zeros(2, 3, device=d),
        lambda d: jg.ones((2,), dtype=jg.int64, device=d),
        lambda d: jg.full((2, 2), 7.5, device=d),
        lambda d: jg.full((2,), jg.tensor(3), device=d),
        lambda d: jg.arange(1, 9, 3, device=d),
        lambda d: jg.linspace(0, 1, 5, device=d),
        lambda d: jg.logspace(0, 2, 3, device=d),
        lambda d: jg.eye(3, 4, device=d),
        lambda d: jg.tensor([[1, 2], [3, 4]], device=d),
        lambda d: jg.tensor(2.5, device=d, dtype=jg.float64),
        lambda d: jg.as_tensor(np.arange(3.0), device=d),
        lambda d: jg.asarray([1, 2], device=d),
        lambda d: jg.zeros_like(jg.ones(2, 3), device=d),
        lambda d: jg.full_like(jg.ones(2, 3, device=d), 4),
        lambda d: jg.ones(2, device=d).new_full((3,), 2),
        lambda d: jg.ones(2, device=d).new_tensor([1, 2, 3]),
        lambda d: jg.ones(2, device=d).new_zeros(2, 2),
        lambda d: jg.rand(3, 5, device=d),
        lambda d: jg.randint(10, (7,), device=d),
        lambda d: jg.randperm(9, device=d),
        lambda d: jg.rand_like(jg.ones(4, device=d)),
        lambda d: jg.bernoulli(jg.full((9,), 0.5, device=d)),
        lambda d: jg.zeros(5, device=d).uniform_(1, 2),
        lambda d: jg.zeros(9, dtype=jg.int64, device=d).random_(0, 5),
    ],
)
def test_making(make):
    expected = make("cpu")
    jg.manual_seed(0)
    same(make("cuda"), expected)


def test_normal_numbers_agree_within_rounding():
    x = jg.randn(50)
    jg.manual_seed(0)
    same(jg.randn(50, device="cuda"), x, 1e-5, 1e-6)


def test_random_streams_of_devices_are_apart():
    jg.rand(3)
    a = jg.rand(4, device="cuda")
    jg.cuda.manual_seed(0)
    same(jg.rand(4, device="cuda"), a.cpu())
    state = jg.cuda.get_rng_state()
    b = jg.rand(4, device="cuda")
    jg.cuda.set_rng_state(state)
    same(jg.rand(4, device="cuda"), b.cpu())
    g = jg.Generator("cuda").manual_seed(5)
    same(jg.rand(3, device="cuda", generator=g), jg.rand(3, generator=jg.Generator().manual_seed(5)))


def test_default_devices():
    with jg.device("cuda"):
        assert (
            jg.zeros(2).is_cuda and jg.tensor([1]).is_cuda and jg.rand(2).is_cuda and jg.nn.Linear(2, 2).weight.is_cuda
        )
        with jg.device("cpu"):
            assert jg.zeros(2).is_cpu
        assert jg.arange(3).is_cuda
    assert jg.zeros(2).is_cpu and jg.get_default_device().type == "cpu"
    jg.set_default_device("cuda")
    try:
        assert jg.ones(1).is_cuda and jg.get_default_device() == jg.device("cuda:0")
    finally:
        jg.set_default_device(None)


def test_reading():
    x = jg.arange(6.0, device="cuda").reshape(2, 3)
    assert x[1, 2].item() == 5.0 and float(x[0, 1]) == 1.0 and int(x.sum()) == 15 and bool(x[0, 1])
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert [row.tolist() for row in x] == x.tolist() and len(x) == 2 and 4.0 in x
    for read in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy\. Use Tensor\.cpu"):
            read()
    assert x.numpy(force=True).tolist() == x.tolist()
    assert f"{x[0, 2]:.1f}" == "2.0"


INDICES = [
    1, -1, slice(None, None, 2), (slice(1, None), 0), (..., 1), (None, 2), ([0, 2], [1, 1]), [2, 0],
    jg.tensor([1, 1, 0]), (slice(None), jg.tensor([[0, 3], [1, 2]])), jg.tensor([True, False, True]),
    np.array([0, 1]), (0, slice(None), None), True,
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index):
    x = jg.arange(12.0).reshape(3, 4)
    there = x.cuda()
    same(there[index], x[index])
    same(there[moved(index)], x[index])
    there[index] = -1
    x[index] = -1
    same(there, x)
    y = jg.rand(*x[index].shape)
    there[index] = y.cuda()
    x[index] = y
    same(there, x)
    there.index_put_((moved(jg.tensor([0])), jg.tensor([1])), jg.tensor(9.0, device="cuda"))
    assert there[0, 1].item() == 9.0


def test_masked_writes():
    x = jg.rand(4, 5)
    there = x.cuda()
    there[there > 0.5] = 0
    x[x > 0.5] = 0
    there[1:, ::2] += 3
    x[1:, ::2] += 3
    same(there, x)


VIEWS = [
    lambda x: x.T, lambda x: x[1:, ::2], lambda x: x.reshape(4, 3), lambda x: x.view(2, 6), lambda x: x.expand(2, 3, 4),
    lambda x: x.permute(1, 0)[::2], lambda x: x.unsqueeze(1), lambda x: x.flatten(), lambda x: x.unfold(1, 2, 1),
    lambda x: x.diagonal(), lambda x: x.as_strided((2, 2), (1, 4), 1), lambda x: x.T.reshape(-1), lambda x: x.flip(0),
    lambda x: x.chunk(2, 1)[1], lambda x: x.select(0, 1), lambda x: x.movedim(0, 1), lambda x: x.narrow(1, 1, 2),
]  # fmt: skip


@pytest.mark.parametrize("show", VIEWS)
def test_views(show):
    x = jg.rand(3, 4)
    there = x.cuda()
    ours, theirs = show(there), show(x)
    same(ours, theirs)
    assert ours.stride() == theirs.stride() and ours.storage_offset() == theirs.storage_offset()
    assert ours.is_contiguous() == theirs.is_contiguous()
    same(ours.contiguous(), theirs)
    same(ours + 1, theirs + 1)
    if 0 not in ours.stride() and ours._base is not None and theirs._base is not None:
        ours.mul_(2)
        theirs.mul_(2)
        same(there, x)


def test_writes_that_overlap():
    x = jg.arange(10.0)
    there = x.cuda()
    there[1:].copy_(there[:-1].clone())
    x[1:].copy_(x[:-1].clone())
    same(there, x)
    there[:9] = there[1:]
    x[:9] = x[1:].clone()
    same(there, x)
    a = jg.arange(9.0, device="cuda").reshape(3, 3)
    a.copy_(a.T)
    assert a.tolist() == jg.arange(9.0).reshape(3, 3).T.tolist()


def test_copies_across_devices():
    x, there = jg.rand(3, 4), jg.zeros(3, 4, device="cuda")
    there.copy_(x)
    same(there, x)
    back = jg.zeros(4, 3)
    back.T.copy_(there)
    assert (x == back.T).all()
    there[0] = jg.ones(4)
    assert there[0].tolist() == [1.0] * 4


def test_mixed_devices():
    x, y = jg.ones(3, device="cuda"), jg.ones(3)
    message = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    for f in (
        lambda: x + y, lambda: y * x, lambda: x.add_(y), lambda: jg.cat([x, y]), lambda: x @ y,
        lambda: jg.stack([y, x]),
        lambda: F.linear(x, jg.ones(2, 3)), lambda: F.mse_loss(x, y), lambda: jg.maximum(x, y), lambda: x == y,
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            f()
    same(x + jg.tensor(2.0), jg.full((3,), 3.0))
    same(jg.tensor(2.0) * x, jg.full((3,), 2.0))
    same(jg.where(x > 0, jg.tensor(5.0), x), jg.full((3,), 5.0))
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        jg.zeros(1, device="cuda:99")
    with pytest.raises(RuntimeError, match="device"):
        x.requires_grad_().grad = y


def test_copies_and_pickles():
    x = jg.rand(3, device="cuda", requires_grad=True)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        same(other, x.cpu())
        assert other.requires_grad and other.is_leaf


@pytest.mark.parametrize("form", ["safetensors", "pth"])
def test_files(form):
    x = {"a": jg.rand(3).cuda(), "b": jg.arange(4), "p": jg.nn.Parameter(jg.ones(2, device="cuda"))}
    file = io.BytesIO()
    jg.save(x, file, format=form)
    content = file.getvalue()
    y = jg.load(io.BytesIO(content))
    same(y["a"], x["a"].cpu())
    assert y["b"].is_cpu and y["p"].is_cuda and type(y["p"]) is jg.nn.Parameter and y["p"].requires_grad
    assert jg.load(io.BytesIO(content), map_location="cpu")["a"].is_cpu
    assert jg.load(io.BytesIO(content), map_location=jg.device("cuda"))["b"].is_cuda
    assert jg.load(io.BytesIO(content), map_location={"cuda:0": "cpu"})["p"].is_cpu
    assert jg.load(io.BytesIO(content), map_location=lambda t, where: t)["a"].is_cpu


def test_memory_of_another():
    x, y = jg.zeros(2, device="cuda"), jg.arange(3.0, device="cuda")
    x.set_(y)
    y[1] = 7
    assert x.is_cuda
    same(x, jg.tensor([0.0, 7, 2]))


def test_exchange():
    x = jg.arange(6.0, device="cuda").reshape(2, 3).T
    facts = x.__cuda_array_interface__
    assert facts["shape"] == (3, 2) and facts["typestr"] == "<f4" and facts["data"][0] == x.data_ptr()
    assert facts["strides"] == (4, 12) and x.contiguous().__cuda_array_interface__["strides"] is None

    class Lent:
        __cuda_array_interface__ = facts

    y = jg.as_tensor(Lent())
    y += 1
    same(x, jg.arange(6.0).reshape(2, 3).T + 1)
    assert y.data_ptr() == x.data_ptr()
    assert not hasattr(jg.ones(1), "__cuda_array_interface__")
    assert x.__dlpack_device__() == (2, 0)
    z = jg.from_dlpack(x)
    assert z.data_ptr() == x.data_ptr() and z.stride() == x.stride()
    z.zero_()
    assert x.sum().item() == 0
    with pytest.raises(AttributeError, match="a tensor on cpu"):
        jg.ones(1).__cuda_array_interface__  # noqa: B018


def test_pinned_memory():
    x = jg.rand(100)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned[3:].is_pinned() and pinned.pin_memory() is pinned
    there = pinned.to("cuda", non_blocking=True)
    back = there.to("cpu", non_blocking=True)
    jg.cuda.synchronize()
    assert (back == x).all() and back.is_pinned()
    with pytest.raises(RuntimeError, match="cannot pin"):
        there.pin_memory()


def test_resizing():
    x = jg.arange(4.0, device="cuda")
    x.resize_(2, 3)
    assert x.shape == (2, 3) and x.flatten()[:4].tolist() == [0.0, 1.0, 2.0, 3.0]
    out = jg.empty(0, device="cuda")
    jg.add(jg.ones(3, device="cuda"), 1, out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]
