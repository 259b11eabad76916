"""`x[index]`, `x[index] = value` and the functions that gather and scatter do what PyTorch's do."""

import pytest
import torch_oracle

import jitgrad as jg

READS = """
x[0]
x[-1]
x[1, 2]
x[1, 2, 3]
x[2]
x[0, 0, 0, 0]
s[0]
s[()]
s[...]
s[None]
s[True]
s[False]
x[...]
x[()]
x[:]
x[..., 0]
x[0, ..., 1]
x[:, None]
x[None, ..., None]
x[1:]
x[:, 1:3]
x[:, ::2, 1]
x[:, 5:]
x[:, 2:1]
x[:, -2:]
x[:, :-1]
x[0:100]
x[:, True]
x[True]
x[False]
x[True, None, 0]
x[k[0]]
x[:, k]
x[:, k, 0]
x[0, :, k]
x[:, [0, 2]]
x[[0, 1], [1, 2]]
x[[0, 1], :, [1, 2]]
x[[0, 1], 0, [1, 2]]
x[[0, 1], [[0], [1]]]
x[[0], [0, 1, 2]]
x[None, [0, 1], None, [0, 1]]
x[:, [0, 1], 1:3]
x[[1, 0], 1:, 0]
x[0, [1, 2]]
x[[], 0]
x[L.tensor([], dtype=L.int64)]
x[L.tensor([-1, 0])]
x[L.tensor([[0, 1], [1, 1]])]
x[L.tensor([0, 1], dtype=L.int32)]
x[np.array([0, 1])]
x[np.int64(1)]
x[:, np.array([True, False, True])]
x[mask]
x[mask, 1]
x[mask, [0, 1, 2, 3]]
x[mask, [0]]
x[0, mask[0]]
x[:, mask[0], 1:]
x[mask[:, 0]]
x[..., [0, 1]]
x[[0, 1], ..., [0, 1]]
x[range(2)]
x[x > 0]
x[x > 10]
x[L.tensor(True)]
x[L.tensor([True, False])]
x[L.tensor([True, False, True])]
x[[True, False]]
x[[3]]
x[:, L.tensor([5])]
x[[0, 1], [0, 1, 2]]
x['a':]
x[1.5]
x[L.tensor([0.5])]
x[object()]
x[..., 0, 0, 0, 0]
x[0:1, 0:1].squeeze()
x[1][2][3]
v[k][mask[0].nonzero()]
f[1:, ::3]
n[0, 1]
len(x)
[r.sum() for r in x]
list(s)
len(s)
x[:, k[1]:]
""".strip().splitlines()

WRITES = """
y = x * 1; y[0] = 1.5; y
y = x * 1; y[0] = v[0]; y
y = x * 1; y[:, 1] = x[:, 0] * 2; y
y = x * 1; y[0, 1] = v[:4]; y
y = x * 1; y[...] = 0; y
y = x * 1; y[:] = x[:1]; y
y = x * 1; y[0] = n[0]; y
y = x * 1; y[:, [0, 2]] = 7; y
y = x * 1; y[[0, 1], [1, 2]] = v[:4]; y
y = x * 1; y[[0, 1], :, [1, 2]] = m[:2] * 2; y
y = x * 1; y[mask] = 0; y
y = x * 1; y[mask] = s; y
y = x * 1; y[mask] = v[:4]; y
y = x * 1; y[mask, 0] = v[:4]; y
y = x * 1; y[y > 0] = s; y
y = x * 1; y[:, mask[0]] = m[0, 0]; y
y = x * 1; y[0, 0, 0] = s; y
y = x * 1; y[None, 0] = 3; y
y = x * 1; y[True] = 3; y
y = x * 1; y[False] = 3; y
y = x * 1; y[0] = v; y
y = x * 1; y[:, [0, 1]] = v; y
y = x * 1; y[5] = 0; y
y = x * 1; y[[5]] = 0; y
y = x * 1; y[0] = x[0].reshape(1, 1, 3, 4); y
y = x * 1; y[0] = 1j; y
y = x * 1; y[1:] += 1; y
y = x * 1; y[0] *= v[0]; y
y = x * 1; y[[0, 1], 0] -= 1; y
y = n * 1; y[0] = 2.7; y
y = n * 1; y[0] = x[0] * 10; y
y = n > 5; y[0] = 3; y
y = f * 1; y[0] = float('nan'); y
y = f * 1; y[1:, ::2] = L.tensor([1, 2]); y
y = x * 1; y[0, 1:].zero_(); y
y = x * 1; y.fill_(2); y
y = x * 1; y[0].fill_(s); y
y = x * 1; y[0].copy_(v[:4]); y
y = x * 1; y[0][1][2] = s; y
x[0] = 1
x.data[0] = 1; x
y = x.detach(); y[0] = 1; x
y = s * 1; y[...] = 5; y
y = s * 1; y[()] = v[0]; y
y = s * 1; y[None] = 5; y
""".strip().splitlines()

FUNCTIONS = """
L.gather(m, 1, L.tensor([[0, 2], [1, 1]]))
m.gather(0, L.tensor([[0, 2, 1]]))
x.gather(-1, n % 4)
s.gather(0, L.tensor([0, 0]))
m.gather(0, L.tensor([0]))
m.gather(0, L.tensor([[0.5]]))
m.scatter(1, L.tensor([[0, 2], [1, 0]]), m[:2, :2] * 2)
m.scatter(1, L.tensor([[0, 2], [1, 0]]), m.detach())
m.scatter(1, L.tensor([[0], [1]]), 5.0)
m.scatter(1, L.tensor([[0], [1]]), value=5)
m.scatter(1, L.tensor([[0], [1]]), f)
m.detach().scatter(1, L.tensor([[0], [1]]), m.detach(), reduce='add')
m.detach().scatter(1, L.tensor([[0], [1]]), 3.0, reduce='multiply')
L.scatter(m, 0, L.tensor([[0, 0, 0]]), m[:1] * 3)
L.zeros(3, 5).scatter_(1, L.tensor([[0], [3], [1]]), 1)
m.scatter_add(0, L.tensor([[0, 0, 2], [0, 1, 1]]), m[:2] * 2)
m.scatter_add(0, L.tensor([[0, 0, 2]]), m.detach())
v.scatter_add(0, k, v[:4])
x.index_select(1, k)
x.index_select(0, L.tensor([1, 1, 0]))
L.index_select(v, 0, k[0])
x.index_select(1, L.tensor([[0]]))
m.index_add(0, L.tensor([0, 0, 2]), m)
m.index_add(1, L.tensor([0, 2]), m[:, :2] * 2, alpha=3)
m.index_add(1, L.tensor([0, 2]), m)
m.index_copy(0, L.tensor([2, 0]), m[:2] * 2)
m.index_fill(1, L.tensor([0, 2]), 5)
m.index_fill(1, L.tensor([0]), s.detach())
m.index_put((L.tensor([0, 1]), L.tensor([1, 1])), v[:2])
m.index_put((L.tensor([0, 0]),), v[:3], accumulate=True)
m.index_put((L.tensor([0, 0]), L.tensor([1, 1])), v[:2], accumulate=True)
m.select_scatter(v[:3], 0, 1)
m.select_scatter(v[:3], 1, -1)
m.select_scatter(v[:2], 1, 0)
m.select_scatter(v[:3], 1, 7)
m.slice_scatter(m[:2] * 2, 0, 1)
m.slice_scatter(m[:, :1] * 2, 1, 1, 3, 2)
m.slice_scatter(m[:2] * 2, 0, 2)
m.diagonal_scatter(v[:3])
m.diagonal_scatter(v[:2], 1)
m.diagonal_scatter(v[:3], 1)
m.scatter_reduce(0, L.tensor([[0, 0, 2], [0, 1, 1]]), m[:2] * 2, 'sum')
m.scatter_reduce(0, L.tensor([[0, 0, 2], [0, 1, 1]]), m[:2] * 2, 'sum', include_self=False)
m.scatter_reduce(1, L.tensor([[0, 0, 2], [0, 1, 1]]), m[:2] * 2, 'mean')
m.scatter_reduce(1, L.tensor([[0, 0, 2], [0, 1, 1]]), m[:2] * 2, 'mean', include_self=False)
m.scatter_reduce(1, L.tensor([[0, 0, 2], [0, 1, 1]]), m[:2] * 2, 'amax')
m.scatter_reduce(0, L.tensor([[0, 0, 2], [0, 1, 1]]), m[:2] * 2, 'amin', include_self=False)
k.scatter_reduce(0, L.tensor([0, 0, 3]), L.tensor([7, -8, 9]), 'mean')
k.scatter_reduce(0, L.tensor([0, 0, 3]), L.tensor([7, -8, 9]), 'amax', include_self=False)
L.take(m, L.tensor([[0, 8], [-1, 4]]))
m.put(L.tensor([0, 4]), v[:2])
L.take_along_dim(m, m.argsort(1), 1)
L.take_along_dim(m, L.tensor([[0]]), dim=1)
L.take_along_dim(m, L.tensor([0, 5]))
L.masked_select(x, mask[..., None])
m.masked_select(m > 0)
m.masked_scatter(m > 0, x)
m.masked_scatter(m > 0, v[:1])
m.masked_fill(m > 0, 2.5)
m.masked_fill(m > 0, s)
n.nonzero()
mask.nonzero()
mask.nonzero(as_tuple=True)
L.nonzero(s)
L.argwhere(n > 20)
L.where(n > 20)
L.where(m > 0, m, s)
L.sort(m)
m.sort(0, descending=True)
v.sort(stable=True)
s.sort()
m.argsort(-1)
L.argsort(n, descending=True)
m.sort(2)
v.topk(2)
m.topk(2, 0)
m.topk(1, largest=False)
m.topk(4)
L.kthvalue(v, 2)
m.kthvalue(1, 0, keepdim=True)
v.kthvalue(9)
v.median()
m.median(1)
m.median(0, keepdim=True)
n.median()
m.msort()
L.tensor([1.0, float('nan'), 0.0]).median()
L.tensor([1.0, float('nan'), 0.0]).sort()
L.tensor([1.0, float('nan'), 0.0]).sort(descending=True)
L.unique(L.tensor([3, 1, 3, 2]))
L.unique(L.tensor([[3, 1], [3, 2]]), return_inverse=True, return_counts=True)
L.unique(L.tensor([[3, 1], [3, 1], [0, 2]]), dim=0)
L.unique_consecutive(L.tensor([1, 1, 2, 1]), return_counts=True)
L.unique_consecutive(L.tensor([[1, 1], [2, 1]]), return_inverse=True)
L.searchsorted(L.tensor([1, 3, 5]), L.tensor([[3, 6], [0, 1]]))
L.searchsorted(L.tensor([[1, 3], [2, 4]]), L.tensor([[3], [3]]), right=True)
L.bucketize(L.tensor([0.5, 2.0, 9.0]), L.tensor([1.0, 3.0]))
L.bincount(L.tensor([0, 2, 2]))
L.bincount(L.tensor([0, 2, 2]), minlength=5)
L.bincount(L.tensor([0, 2, 2]), L.tensor([0.5, 1.0, 2.0]))
y = m * 1; y.scatter_(1, L.tensor([[0], [1]]), 5.0); y
y = m * 1; y.index_add_(0, L.tensor([0, 0]), m[:2]); y
y = m * 1; y.index_fill_(0, L.tensor([0]), 1); y
y = m * 1; y.masked_fill_(m > 0, 0); y
y = m * 1; y.triu_(); y
y = m * 1; y[0].scatter_add_(0, L.tensor([0, 0]), v[:2]); y
""".strip().splitlines()


@pytest.mark.torch
@pytest.mark.parametrize("program", READS + WRITES + FUNCTIONS)
def test_as_pytorch(program):
    torch_oracle.check(program)


def test_of_values_assigned_to_one_place_the_last_gets_the_gradient():
    x, value = jg.zeros(3), jg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x[jg.tensor([0, 1, 0])] = value
    assert x.tolist() == [3.0, 2.0, 0.0]
    (x * jg.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert value.grad.tolist() == [0.0, 20.0, 10.0]


def test_nested_lists_index_one_axis():
    assert jg.arange(6).reshape(3, 2)[[[0, 2], [1, 1]]].shape == (2, 2, 2)


@pytest.mark.parametrize("read", [lambda x, i: x.gather(0, i), lambda x, i: x.index_select(0, i), lambda x, i: x[i]])
def test_indices_out_of_range_raise_index_error(read):
    with pytest.raises(IndexError, match="3"):
        read(jg.zeros(3), jg.tensor([0, 3]))


def test_negative_steps_make_views():
    x = jg.arange(6).reshape(2, 3)
    assert x[:, ::-1].tolist() == [[2, 1, 0], [5, 4, 3]]
    x[0, ::-2] = jg.tensor([7, 8])
    assert x.tolist() == [[8, 1, 7], [3, 4, 5]]
    w = jg.ones(4, requires_grad=True)
    (w[::-1] * jg.arange(4)).sum().backward()
    assert w.grad.tolist() == [3.0, 2.0, 1.0, 0.0]


def test_lists_and_arrays_can_be_assigned():
    x = jg.zeros(2, 2)
    x[0] = [1, 2]
    x[1] = [[3.5, 4.5]]
    assert x.tolist() == [[1.0, 2.0], [3.5, 4.5]]


def test_a_failed_assignment_changes_nothing():
    x = jg.zeros(3)
    with pytest.raises(IndexError):
        x[jg.tensor([0, 7])] = 1.0
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_errors_name_the_users_line():
    with pytest.raises(IndexError, match=r"test_indexing.py:\d+"):
        jg.zeros(3)[5]
