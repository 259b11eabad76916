"""Tensors from data, filled tensors and ranges are PyTorch's: values, dtypes, errors."""

import numpy as np
import pytest
import torch_oracle

import jitgrad as jg

PROGRAMS = """
L.tensor(1)
L.tensor(1.5)
L.tensor(True)
L.tensor(1 + 2j)
L.tensor([])
L.tensor([[]])
L.tensor([1, 2])
L.tensor([1, 2.5])
L.tensor([1, True])
L.tensor([1.0, 2j])
L.tensor([[1, 2], [3, 4]])
L.tensor(((1, 2), (3, 4)))
L.tensor([[1, 2], [3]])
L.tensor("a")
L.tensor(None)
L.tensor([None])
L.tensor(range(3))
L.tensor([1.5, 2.5], dtype=L.int32)
L.tensor([0, 2], dtype=L.bool)
L.tensor([0, 2], dtype=L.float16)
L.tensor([1.1, 2], dtype=L.bfloat16)
L.tensor([1, 2], dtype=L.complex64)
L.tensor([1, 2], dtype=float)
L.tensor([1.5], dtype=int)
L.tensor(2**63)
L.tensor([2**63])
L.tensor(-2**63)
L.tensor(np.float32(1.5))
L.tensor(np.float64(1.5))
L.tensor(np.int32(3))
L.tensor([np.float64(1.5)])
L.tensor([np.float32(1.5)])
L.tensor([np.int32(1), np.int32(2)])
L.tensor(np.ones((2, 3)))
L.tensor(np.ones((2, 3), np.float32))
L.tensor(np.array([True, False]))
L.tensor(np.array([1, 2], np.int16))
L.tensor(np.array(["a"]))
L.tensor([np.ones(2), np.zeros(2)])
L.tensor([L.tensor(1), L.tensor(2)])
L.tensor([L.tensor(1.5), 2])
L.tensor([[L.tensor(1.5)], [2]])
L.tensor([L.ones(2), L.ones(2)])
L.tensor(L.tensor([1, 2]))
L.tensor([1, 2], requires_grad=True)
L.tensor([1.0, 2], requires_grad=True)
L.tensor([1.0], device="cpu")
L.tensor([1.0], device="nowhere")
L.as_tensor([1, 2])
L.as_tensor(n) is n
L.as_tensor(n, dtype=L.float64)
L.as_tensor(np.arange(3))
L.asarray([1.0])
L.from_numpy(np.arange(3, dtype=np.uint8))
L.from_numpy([1])
L.from_numpy(np.array(["a"]))
L.zeros(2, 3)
L.zeros((2, 3))
L.zeros([2])
L.zeros(())
L.zeros(0)
L.zeros(2, dtype=L.int32)
L.zeros(-1)
L.zeros(2.5)
L.zeros(2, requires_grad=True)
L.zeros(n.shape)
L.zeros(L.tensor(2), 3)
L.ones(2, 2, dtype=L.bool)
L.full((2,), 3)
L.full((2,), 3.0)
L.full((2,), True)
L.full((2,), 1j)
L.full((2,), 3, dtype=L.float64)
L.full((2, 2), float("nan"))
L.full((), 2)
L.zeros_like(n)
L.zeros_like(x, dtype=L.int32)
L.ones_like(x)
L.ones_like(n, dtype=L.float32, requires_grad=True)
L.full_like(n, 7)
L.full_like(x, 7)
L.full_like(n, 1.5)
L.empty(2, 3).shape
L.empty_like(x).dtype
x.new_zeros(2, 3)
n.new_ones((2,))
n.new_full((2,), 3)
n.new_tensor([1.5])
x.new_tensor([1])
x.new_empty(3).shape
L.arange(5)
L.arange(5.0)
L.arange(1, 5)
L.arange(1, 10, 3)
L.arange(10, 0, -3)
L.arange(0, 1, 0.25)
L.arange(1, 2.5, 0.5)
L.arange(5, dtype=L.float64)
L.arange(2.5)
L.arange(0, 5, 0)
L.arange(5, 0)
L.arange(0)
L.arange(start=1, end=4)
L.arange(end=4)
L.arange(3, dtype=L.uint8)
L.arange(0, 3, requires_grad=True, dtype=L.float32)
L.linspace(0, 1, 5)
L.linspace(0, 1, 1)
L.linspace(0, 1, 0)
L.linspace(-3, 7, 11)
L.linspace(1, 0, 4, dtype=L.float64)
L.linspace(0, 10, 4, dtype=L.int64)
L.linspace(0, 1, -1)
L.linspace(start=0, end=1, steps=3)
L.logspace(0, 2, 3)
L.logspace(0, 3, 4, base=2)
L.eye(3)
L.eye(2, 3)
L.eye(3, 2, dtype=L.int64)
L.eye(0)
L.zeros(2, 3, out=L.ones(2, 3))
L.arange(3, out=L.zeros(3))
L.complex(L.ones(2), L.zeros(2))
"""


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS.strip().splitlines())
def test_same_as_pytorch(program):
    torch_oracle.check(program)


def test_data_is_copied_but_arrays_may_be_shared():
    array = np.zeros(2, np.float32)
    copied, shared = jg.tensor(array), jg.from_numpy(array)
    array[0] = 1
    assert copied.tolist() == [0, 0] and shared.tolist() == [1, 0]
    assert jg.as_tensor(array).tolist() == [1, 0]


def test_filled_tensors_can_be_written_to():
    for t in (
        jg.zeros(3),
        jg.full((3,), 0.0),
        jg.full((3,), jg.tensor(0.0)),
        jg.linspace(0, 0, 3),
        jg.zeros_like(jg.ones(3)),
    ):
        t += 1
        assert t.tolist() == [1, 1, 1]
    one = jg.linspace(3, 4, 1, dtype=jg.float64)
    one += 1
    none = jg.isposinf(jg.arange(3))
    none |= True
    assert one.tolist() == [4] and none.tolist() == [True] * 3


def test_ranges_are_exact_at_both_ends():
    t = jg.linspace(0.1, 0.7, 1001, dtype=jg.float64)
    assert t[0].item() == 0.1 and t[-1].item() == 0.7
    assert jg.arange(2**53 - 3, 2**53 + 3)[-1].item() == 2**53 + 2
