"""`jitgrad.linalg` and PyTorch's older names are PyTorch's: values, gradients, results' names, errors."""

import pytest
import torch_oracle

import jitgrad as jg

# `p` is positive-definite, `a` has a batch, `t` is tall, `w` wide.
SETUP = (
    "p = m @ m.T + L.eye(3, dtype=L.float64); a = x[:, :, :3] + 2 * L.eye(3, dtype=L.float64); "
    "t = x[0].T; w = x[0]; c = L.complex(m, m.T); "
)
PROGRAMS = """
L.linalg.cholesky(p)
L.linalg.cholesky(p, upper=True)
L.linalg.cholesky_ex(p).info
L.linalg.cholesky_ex(-p.detach()).info
L.linalg.cholesky(t)
L.linalg.cholesky(v)
L.linalg.cholesky(n)
L.linalg.inv(a)
L.view_as_real(L.linalg.inv(c))
L.linalg.inv(A=p)
L.linalg.inv_ex(L.zeros(2, 2)).info
L.inverse(p)
p.inverse()
L.linalg.solve(a, m)
L.linalg.solve(a, v[:3])
L.linalg.solve(a, a[:, 0])
L.linalg.solve(a, t.T[:2, :3], left=False)
L.linalg.solve(a, m, left=False)
L.linalg.solve(a, v)
L.linalg.solve(a, t)
L.linalg.solve(t, t)
L.linalg.solve(a, m.float())
L.linalg.solve_ex(L.zeros(2, 2), L.ones(2)).info
L.linalg.solve_triangular(p, m, upper=True)
L.linalg.solve_triangular(p, m, upper=False, unitriangular=True)
L.linalg.solve_triangular(a, m, upper=False, left=False)
L.linalg.solve_triangular(L.zeros(2, 2), L.ones(2, 1), upper=True)
L.linalg.solve_triangular(p, v[:3], upper=True)
L.triangular_solve(m, p).solution
L.triangular_solve(m, a, upper=False, transpose=True)[0]
L.cholesky_solve(m, L.linalg.cholesky(p))
L.cholesky_inverse(L.linalg.cholesky(p))
L.cholesky_inverse(L.linalg.cholesky(p, upper=True), upper=True)
L.linalg.lu(a)
L.linalg.lu(t).L
L.linalg.lu(w).U
L.linalg.lu(a, pivot=False)
L.linalg.lu_factor(a)
L.linalg.lu_factor(L.zeros(2, 2))
L.linalg.lu_factor_ex(L.zeros(2, 2)).info
L.linalg.lu_solve(*L.linalg.lu_factor(p), m)
L.linalg.lu_solve(*L.linalg.lu_factor(p), m, adjoint=True)
L.linalg.lu_solve(*L.linalg.lu_factor(p), m, left=False)
L.linalg.lu_solve(*L.linalg.lu_factor(p), m, left=False, adjoint=True)
L.linalg.lu_solve(*L.linalg.lu_factor(p), t)
L.lu_solve(m, *L.lu(p))
L.lu_unpack(*L.lu(t))
L.lu_unpack(*L.lu(t), unpack_pivots=False)[1:]
p.lu(get_infos=True)[2]
L.linalg.qr(t)
L.linalg.qr(w)
L.linalg.qr(w, "complete")
L.linalg.qr(t.detach(), "complete").R
L.linalg.qr(t.detach(), "r").R
L.linalg.qr(t, "other")
L.qr(t).R
t.detach().qr(some=False)[1]
L.linalg.eigvalsh(p)
L.linalg.eigvalsh(p, "u")
L.linalg.eigvalsh(p, "x")
L.linalg.eigh(p).eigenvalues
L.linalg.eigvals(a).abs().sum()
L.linalg.eig(a).eigenvalues.abs().sum()
L.linalg.eig(t)
L.linalg.svdvals(t)
L.linalg.svd(t).S
L.linalg.svd(t, full_matrices=False).S
L.linalg.svd(t.detach())[0].shape
L.svd(t).S
L.svd(w.detach(), compute_uv=False)
L.linalg.svdvals(v)
L.linalg.pinv(t)
L.linalg.pinv(w)
L.linalg.pinv(p, hermitian=True)
L.linalg.pinv(t, rtol=0.9)
L.linalg.pinv(t, atol=L.tensor(0.5, dtype=L.float64))
L.linalg.pinv(t, 0.9)
L.pinverse(t)
L.linalg.lstsq(t, m.T[:1].T.expand(3, 2)[:0].new_ones(4, 2)).solution
L.linalg.lstsq(w, m)
L.linalg.lstsq(t, L.ones(4, 2, dtype=L.float64), driver="gelsd")
L.linalg.lstsq(t, L.ones(4, 2, dtype=L.float64), driver="gels").residuals
L.linalg.lstsq(t, L.ones(4, 2, dtype=L.float64), driver="other")
L.linalg.lstsq(t, m)
L.linalg.det(a)
L.linalg.det(p - p)
L.linalg.det(m.detach()[:, :1] @ m[:1])
p.det()
L.det(t)
L.linalg.slogdet(a)
L.view_as_real(L.linalg.slogdet(c).sign)
p.slogdet()[1]
L.logdet(p)
L.logdet(-p.detach())
L.linalg.matrix_exp(m)
L.matrix_exp(a)
L.matrix_exp(n)
L.linalg.matrix_power(m, 5)
L.linalg.matrix_power(m, -2)
L.linalg.matrix_power(m, 0)
L.linalg.matrix_power(t, 2)
m.matrix_power(3)
L.linalg.multi_dot([w, t, v[:3]])
L.linalg.multi_dot([v[:3], w])
L.linalg.multi_dot([m])
L.linalg.multi_dot([m, v[:4]])
L.chain_matmul(w, t, m)
L.linalg.matrix_norm(x)
L.linalg.matrix_norm(x, 2)
L.linalg.matrix_norm(x, -2, dim=(0, 2))
L.linalg.matrix_norm(x, "nuc", keepdim=True)
L.linalg.matrix_norm(x, 1)
L.linalg.matrix_norm(x, -1, dim=(0, 1), keepdim=True)
L.linalg.matrix_norm(x, float("inf"))
L.linalg.matrix_norm(x, 3)
L.linalg.matrix_norm(z, 2)
L.linalg.matrix_norm(z, -2)
L.linalg.matrix_norm(z, float("inf"))
L.linalg.matrix_norm(z.T, -1)
L.linalg.matrix_norm(z, -1)
L.linalg.matrix_norm(x, "other")
L.linalg.matrix_norm(v)
L.linalg.matrix_norm(x, dim=(1, 1))
L.linalg.matrix_norm(f, dtype=L.float64)
L.linalg.matrix_norm(m, dtype=L.float32)
L.linalg.vector_norm(x)
L.linalg.vector_norm(x, 3, dim=1)
L.linalg.vector_norm(x, 0.5, dim=(0, 1), keepdim=True)
L.linalg.vector_norm(x.detach(), 0)
L.linalg.vector_norm(x, float("-inf"), dim=-1)
L.linalg.vector_norm(c)
L.linalg.vector_norm(m - m)
L.linalg.vector_norm(m - m, 1.5)
L.linalg.vector_norm(z)
L.linalg.vector_norm(z, float("inf"))
L.linalg.vector_norm(z, float("inf"), dim=0)
L.linalg.vector_norm(f.half(), dtype=L.float32)
L.linalg.vector_norm(n)
L.linalg.vector_norm(x, axis=1, keepdims=True)
L.linalg.norm(x)
L.linalg.norm(m, 2)
L.linalg.norm(m, "nuc")
L.linalg.norm(x, 2, dim=1)
L.linalg.norm(x, 2, dim=(1, 2))
L.linalg.norm(x, 2)
L.linalg.norm(x, "fro")
L.norm(x)
L.norm(x, 1)
L.norm(m, "nuc")
L.norm(x, "nuc", dim=(0, 1))
x.norm(p=3, dim=1, keepdim=True)
L.norm(x, "other")
L.norm(n)
L.linalg.cond(p)
L.linalg.cond(p, -2)
L.linalg.cond(p.detach(), 1)
L.linalg.cond(p.detach(), "nuc")
L.linalg.cond(L.zeros(2, 2), 1)
L.linalg.cond(p, 3)
L.linalg.matrix_rank(t)
L.linalg.matrix_rank(m[:, :1] @ m[:1])
L.linalg.matrix_rank(t, 1.0)
L.linalg.matrix_rank(p, hermitian=True)
L.linalg.matrix_rank(a, atol=0.1, rtol=0.1)
L.linalg.matrix_rank(a, atol=L.tensor([0.1, 9.0], dtype=L.float64))
L.linalg.cross(m, m.T)
L.linalg.cross(m, m.T, dim=0)
L.linalg.cross(v, v)
L.linalg.cross(x, m)
L.cross(t, t.flip(0))
L.cross(v, v)
L.view_as_real(L.linalg.vecdot(c, c))
L.linalg.vecdot(x, x[0], dim=1)
L.linalg.vecdot(n, n)
L.linalg.vander(v)
L.linalg.vander(n[0], N=3)
L.linalg.diagonal(x)
L.linalg.diagonal(x, offset=1, dim1=0, dim2=1)
L.linalg.tensorinv(L.eye(6, dtype=L.float64).reshape(2, 3, 6) + x.sum())
L.linalg.tensorinv(x)
L.linalg.tensorsolve(L.eye(6, dtype=L.float64).reshape(2, 3, 3, 2), x[:, :, 0])
L.linalg.tensorsolve(x, x)
L.linalg.ldl_solve(*L.linalg.ldl_factor(p.detach()), L.ones(3, 1, dtype=L.float64))
L.linalg.householder_product(*L.geqrf(t.detach()))
L.linalg.householder_product(t, v[:3])
L.linalg.householder_product(w, v[:3])
L.orgqr(t, v[:2])
L.ormqr(t, v[:3], x[0].T)
L.ormqr(t, v[:3], x[0], left=False, transpose=True)
L.ormqr(t, v[:2], x[0].T)
L.geqrf(t.detach()).tau
L.kron(m, m[:1])
L.kron(v, x)
L.cov(m)
L.cov(v)
L.cov(m, correction=0, fweights=k[:3], aweights=m[0].detach().abs())
L.cov(m, fweights=m[0])
L.cov(m, fweights=-k[:3])
L.cov(x)
L.corrcoef(m)
L.view_as_real(L.corrcoef(c))
L.dist(m, m.T)
L.dist(x, m[0, 0], 3)
L.cdist(t, t[:2])
L.cdist(t, t[:2], 1)
L.cdist(t, t[:2], float("inf"))
L.cdist(t, t[:2], 0.5)
L.cdist(x, x[:1])
L.cdist(t, w)
L.cdist(t, t, -1)
L.cdist(t, t, 2, "other")
L.renorm(m, 2, 0, 0.5)
L.renorm(x, 1, -1, 1.0)
m.detach().clone().renorm_(2, 0, 0.5)
L.renorm(v, 2, 0, 1)
L.norm_except_dim(x)
L.nuclear_norm(m)
L.frobenius_norm(x, (1, 2))
L.linalg.inv(p.detach(), out=L.empty(3, 3, dtype=L.float64))
L.linalg.eigh(p.detach(), out=(L.empty(0, dtype=L.float64), L.empty(0, dtype=L.float64)))[0]
"""


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS.strip().splitlines())
def test_same_as_pytorch(program):
    torch_oracle.check(SETUP + program, rtol=1e-5)


SINGULAR = """
L.linalg.cholesky(-L.eye(2))
L.linalg.cholesky_ex(L.stack([L.eye(2), -L.eye(2)]), check_errors=True)
L.cholesky(L.zeros(2, 2))
L.linalg.inv(L.zeros(2, 2))
L.linalg.inv(L.zeros(3, 2, 2))
L.linalg.inv_ex(L.diag(L.tensor([1.0, 0.0])), check_errors=True)
L.linalg.solve(L.zeros(2, 2), L.ones(2))
L.linalg.solve_ex(L.zeros(2, 2, 2), L.ones(2, 2), check_errors=True)
L.linalg.svd(L.full((3, 3), float("nan")))
L.linalg.matrix_power(L.zeros(2, 2), -1)
"""


@pytest.mark.torch
@pytest.mark.parametrize("program", SINGULAR.strip().splitlines())
def test_what_does_not_exist_is_refused_in_pytorchs_words(program):
    import torch

    with pytest.raises(torch.linalg.LinAlgError) as theirs:
        eval(program, {"L": torch})
    with pytest.raises(jg.linalg.LinAlgError) as ours:
        eval(program, {"L": jg})
    assert isinstance(ours.value, RuntimeError)
    assert str(ours.value).splitlines()[0] == str(theirs.value)


def test_names_of_results():
    a = jg.tensor([[2.0, 1.0], [1.0, 3.0]])
    found = {
        jg.linalg.cholesky_ex: ("L", "info"), jg.linalg.eig: ("eigenvalues", "eigenvectors"),
        jg.linalg.eigh: ("eigenvalues", "eigenvectors"), jg.linalg.inv_ex: ("inverse", "info"),
        jg.linalg.ldl_factor: ("LD", "pivots"), jg.linalg.ldl_factor_ex: ("LD", "pivots", "info"),
        jg.linalg.lu: ("P", "L", "U"), jg.linalg.lu_factor: ("LU", "pivots"),
        jg.linalg.lu_factor_ex: ("LU", "pivots", "info"), jg.linalg.qr: ("Q", "R"),
        jg.linalg.slogdet: ("sign", "logabsdet"), jg.linalg.svd: ("U", "S", "Vh"), jg.svd: ("U", "S", "V"),
        jg.geqrf: ("a", "tau"), jg.slogdet: ("sign", "logabsdet"), jg.qr: ("Q", "R"),
    }  # fmt: skip
    for function, names in found.items():
        assert function(a)._fields == names
    assert jg.linalg.lstsq(a, a)._fields == ("solution", "residuals", "rank", "singular_values")
    assert jg.linalg.solve_ex(a, a)._fields == ("result", "info")


def test_only_one_triangle_is_read():
    a = jg.tensor([[2.0, float("nan")], [1.0, 3.0]])
    assert jg.linalg.cholesky(a).isfinite().all()
    assert jg.linalg.eigvalsh(a).isfinite().all() and jg.linalg.eigvalsh(a.T, UPLO="U").isfinite().all()
    with pytest.raises(jg.linalg.LinAlgError, match="non-finite"):
        jg.linalg.eigvalsh(a, UPLO="U")


def test_low_rank_approximations():
    jg.manual_seed(0)
    x = jg.randn(20, 3, dtype=jg.float64) @ jg.randn(3, 15, dtype=jg.float64)
    for u, s, v in (jg.svd_lowrank(x, 4), jg.pca_lowrank(x, 4, center=False), jg.svd_lowrank(x.T, 4)):
        made = u * s @ v.mH
        assert jg.allclose(made, x if made.shape == x.shape else x.T)
    with pytest.raises(ValueError, match="not greater than min"):
        jg.pca_lowrank(x, 16)


def test_a_few_eigenvalues_of_many():
    jg.manual_seed(0)
    x = jg.randn(30, 30, dtype=jg.float64)
    a = (x @ x.T).requires_grad_()
    for largest in (True, False):
        values, vectors = jg.lobpcg(a, 2, largest=largest, tol=1e-12)
        want = jg.linalg.eigvalsh(a.detach())
        assert jg.allclose(values, want.flip(0)[:2] if largest else want[:2])
        assert jg.allclose(a @ vectors, vectors * values, atol=1e-6)
    with pytest.raises(ValueError, match="is smaller than 3 x"):
        jg.lobpcg(a, 11)


def test_overflow_is_no_warning():
    huge = jg.full((2, 2), 1e30)
    assert not jg.linalg.matrix_exp(huge).isfinite().any()
    assert jg.linalg.pinv(huge).isfinite().all()
