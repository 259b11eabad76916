"""Tensors become Python numbers, lists, arrays, other dtypes and copies, and come back."""

import copy
import pickle

import numpy as np
import pytest
import torch_oracle

import jitgrad as jg

PROGRAMS = """
x.item()
s.item()
x[0, 0, :1].item()
n[0, 0, 1].item()
mask[0, 0].item()
x.tolist()
n.tolist()
s.tolist()
L.tensor([1.5], dtype=L.bfloat16).tolist()
L.tensor(1.5, dtype=L.bfloat16).item()
L.tensor([1+2j]).tolist()
x.detach().numpy().sum()
x.numpy()
float(s)
int(L.tensor(2.7))
complex(L.tensor(2))
bool(s)
bool(L.tensor([[0]]))
bool(x)
bool(z)
[10, 20, 30][k[1]]
[10, 20][s]
[10, 20][k]
range(3)[k[0]]
len(x)
len(s)
list(v.detach())[1].item()
list(s)
3 in k
7 in k
'a' in k
sum(r for r in m)
x.to(L.float32)
x.to(f)
x.to('cpu')
x.to('cpu', L.float16)
x.to(L.device('cpu'), dtype=L.int64)
x.to(L.float64) is x
x.to(L.float64, copy=True) is x
x.to(x.dtype).dtype
x.float()
x.half()
x.bfloat16()
x.double() is x
x.long()
x.int()
x.short()
x.char()
(x * 100).abs().byte()
x.bool()
n.bool()
x.detach().cfloat()
x.detach().cdouble()
L.tensor([1+2j]).cdouble()
x.type(L.float32)
f.type().rpartition('.')[2]
n.type().rpartition('.')[2]
x.type_as(f)
x.cpu() is x
x.cuda()
x.detach()
x.detach().requires_grad
x.clone()
m.data
(x * 1).detach_()
(x * 1)[0].detach_()
np.asarray(x.detach()).sum()
np.array(k).tolist()
np.asarray(x)
np.asarray(k, dtype=np.float32).dtype.name
np.sin(x.detach())
np.float64(2) * x
x * np.float64(2)
f * np.float64(2)
np.float32(3) * k
""".strip().splitlines()


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_pytorch(program):
    if "cuda" in program:
        if not jg.cuda.is_available():
            with pytest.raises(RuntimeError, match="CUDA is not available"):
                jg.zeros(1).cuda()
        return
    torch_oracle.check(program)


def test_numpy_shares_memory():
    x = jg.zeros(3)
    x.numpy()[0] = 5
    assert x.tolist() == [5.0, 0.0, 0.0]
    assert np.asarray(x).base is not None


def test_arrays_and_tensors_mix():
    total = np.ones(2) * jg.tensor([1.0, 2.0])
    assert isinstance(total, jg.Tensor)


def test_dlpack_shares_memory_both_ways():
    array = np.arange(3.0)
    x = jg.from_dlpack(array)
    x[0] = 7
    assert array[0] == 7
    assert np.from_dlpack(x)[0] == 7


@pytest.mark.torch
def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    x = jg.from_dlpack(torch.arange(3))
    assert x.tolist() == [0, 1, 2] and x.dtype is jg.int64
    assert torch.from_dlpack(jg.arange(3)).tolist() == [0, 1, 2]


def test_deep_copies_of_leaves():
    x = jg.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    x.note = ["kept"]
    first, second = copy.deepcopy([x, x])
    assert first is second and first.requires_grad and first.grad.tolist() == [2.0, 2.0]
    assert first.note == ["kept"] and first.note is not x.note
    first.data[0] = 5
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="leaves"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize("dtype", [jg.float32, jg.bfloat16, jg.bool, jg.int8, jg.complex64])
def test_pickles(dtype):
    x = jg.tensor([1, 0]).to(dtype)
    if dtype is jg.float32:
        x.requires_grad_()
    back = pickle.loads(pickle.dumps(x))
    assert back.dtype is dtype and back.requires_grad == x.requires_grad
    assert back.tolist() == x.tolist()


def test_devices():
    assert jg.device("cpu") == jg.zeros(1).device
    assert isinstance(jg.zeros(1).device, jg.device)
    assert str(jg.device("cpu", 0)) == "cpu:0"
    assert str(jg.device("cuda")) == "cuda" and jg.device(1) == jg.device("cuda:1")
    if not jg.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA is not available"):
            jg.zeros(1, device="cuda")
    with pytest.raises(RuntimeError, match="device type"):
        jg.device("tpu9")
