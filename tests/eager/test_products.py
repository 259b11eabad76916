"""Matrix products in all their forms are PyTorch's: values, gradients, dtypes, errors."""

import pytest
import torch_oracle

import jitgrad as jg

PROGRAMS = """
v @ v
m @ m
m @ v[:3]
v[:3] @ m
x @ x.transpose(1, 2)
x @ m[:, :2].reshape(2, 3).T[:3].expand(3, 2)
x.transpose(1, 2) @ m
m @ x
v[:3] @ x
x @ v[:4]
x @ x[0].T
x[0] @ x.transpose(1, 2)
x.unsqueeze(1) @ x.transpose(1, 2).unsqueeze(0)
x.unsqueeze(1) @ m.new_ones(5, 4, 2)
x @ x
x @ v
m @ s
s @ m
v @ m
m @ n
n @ n.transpose(1, 2)
m.matmul(m)
L.matmul(m, v[:3])
L.matmul(m, 2)
m @ 2
2 @ m
m @ m.float()
L.zeros(0, 3) @ L.zeros(3, 2)
L.zeros(2, 0) @ L.zeros(0, 3)
L.ones(2, 3, 0) @ L.ones(2, 0, 4)
L.ones(2, 3, dtype=L.float16) @ L.ones(3, 2, dtype=L.float16)
L.tensor([[1 + 1j, 2]]) @ L.tensor([[1j], [2]])
m.mm(m)
m.mm(v)
L.mm(x, x)
x.bmm(x.transpose(1, 2))
m.bmm(m)
m.mv(v[:3])
m.mv(m)
v.dot(v)
v.dot(v[:2])
v.dot(m)
L.vdot(v, v)
L.vdot(L.tensor([1 + 2j]), L.tensor([3 - 1j]))
L.outer(v, v[:2])
v.ger(v)
L.outer(m, v)
L.inner(v, v)
L.inner(x, m.new_ones(2, 4))
L.inner(s, v)
L.addmm(m, m, m)
L.addmm(m[0], m, m, beta=2, alpha=0.5)
L.addmm(s, m, m)
L.addmm(m, m, m, beta=0)
L.addmm(L.full((3, 3), float("nan"), dtype=L.float64), m, m, beta=0)
L.addmm(v, m, m)
L.addmm(n[0, :, :1], n[0], n[0].T, alpha=2)
L.addmv(m[0], m, m[1])
L.addr(m, m[0], m[1], beta=0.5, alpha=2)
L.baddbmm(s, x, x.transpose(1, 2))
L.baddbmm(x[:, :, :3], x, x.transpose(1, 2), alpha=3)
L.addbmm(m, x, x.transpose(1, 2))
m.detach().clone().addmm_(m.detach(), m.detach(), beta=0.5)
L.tensordot(x, x, 3)
L.tensordot(x, x, dims=([0, 2], [0, 2]))
L.tensordot(x, m, dims=([1], [0]))
L.tensordot(v, v, 0)
L.tensordot(x, m, dims=([2], [0]))
L.tensordot(x, v, 4)
m.trace()
L.trace(n[0])
L.trace(v)
L.einsum("ij,jk->ik", m, m)
L.einsum("ij,jk", m, m)
L.einsum("ij->ji", m)
L.einsum("ij", m)
L.einsum("ji", m)
L.einsum("ii", m)
L.einsum("ii->i", m)
L.einsum("ij->", m)
L.einsum("i,i", v, v)
L.einsum("i,j->ij", v, v)
L.einsum("i,j->ji", v, v)
L.einsum("bij,bkj->bik", x, x)
L.einsum("bij,kj->bik", x, x[0])
L.einsum("bij,bij->b", x, x)
L.einsum("bij,bij->bij", x, x)
L.einsum("...ij,...kj->...ik", x, x)
L.einsum("...ij,kj->...ik", x, x[0])
L.einsum("...,...->...", x, x[0])
L.einsum("i...->...", x)
L.einsum("...i->i...", x)
L.einsum("b...j,j->b...", x, x[0, 0])
L.einsum("ij,jk,kl->il", m, m, m)
L.einsum("i,i,i->", v, v, v)
L.einsum("bij,ij,j->b", x, x[0], x[1, 0])
L.einsum("ij,ij->i", m, m[:1])
L.einsum("i,->i", v, s)
L.einsum(" i j , j k -> i k ", m, m)
L.einsum("ij,jk->ik", [m, m])
L.einsum("iij->ij", m.reshape(3, 3, 1).expand(3, 3, 2))
L.einsum("ij,jk->ik", m, v)
L.einsum("ij,kj->ik", m, x[0])
L.einsum("ij,jk->il", m, m)
L.einsum("ij,jk->ii", m, m)
L.einsum("i1->i", m)
L.einsum("ij", m, m)
L.einsum("ij,jk->ik", n[0], n[0].T)
L.mm(m, m, out=L.zeros(3, 3, dtype=L.float64))
L.matmul(f, f.T, out=L.zeros(3, 3))
"""


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS.strip().splitlines())
def test_same_as_pytorch(program):
    torch_oracle.check(program, rtol=1e-5)


def test_the_error_names_axes_types_and_line():
    with pytest.raises(RuntimeError) as error:
        jg.ones(32, 128) @ jg.ones(64, 10)
    text = str(error.value)
    assert "lhs axis 1 is 128, rhs axis 0 is 64" in text
    assert "f32[32,128]" in text and "f32[64,10]" in text and "test_products.py:" in text
