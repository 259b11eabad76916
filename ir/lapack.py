"""The door to LAPACK: routines on arrays of matrices, `[..., m, n]`, by NumPy where it has them and SciPy else.

NumPy's take batches; SciPy's, which is loaded at first use, are called for one matrix after another. `info` is
LAPACK's number, int32 for each matrix: 0 if all went well. Pivots count from 1, as in LAPACK and PyTorch.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .errors import LinAlgError

Array = Any

_quiet = np.errstate(all="ignore")  # as a decorator: overflow and NaN are results, not warnings
_MANY = 4  # times as many matrices as rows: then all of them go through the steps of one routine together
_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}


def _lapack(name: str, x: Array) -> Any:
    """LAPACK's `name` for the dtype of `x`."""
    from scipy.linalg import lapack  # lazy: loads SciPy

    return getattr(lapack, _PREFIX[x.dtype.char] + name)


def _blas(name: str, x: Array) -> Any:
    """BLAS's `name` for the dtype of `x`."""
    from scipy.linalg import blas  # lazy: loads SciPy

    return getattr(blas, _PREFIX[x.dtype.char] + name)


def _no_info(x: Array) -> Array:
    return np.zeros(x.shape[:-2], np.int32)


def adjoint(x: Array) -> Array:
    """The conjugate transpose."""
    return np.conj(np.swapaxes(x, -1, -2))


def triangle(x: Array, upper: bool) -> Array:
    """The triangle that a routine reads, and zeros."""
    return np.triu(x) if upper else np.tril(x)


def check_finite(name: str, x: Array) -> None:
    """Raise where a matrix holds NaN or infinity, on which iterations don't converge."""
    if not np.all(np.isfinite(x)):
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix contained non-finite values."
        )


def _diverged(name: str) -> LinAlgError:
    """What to say where an iteration has not converged."""
    return LinAlgError(
        f"{name}: The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
        "repeated values."
    )


# -------------------------------------------------------------------------------------------- factorisations


@_quiet
def cholesky(x: Array) -> tuple[Array, Array]:
    """The lower factor of matrices of which the lower triangle is read, and `info`."""
    info = _no_info(x)
    try:
        factor = np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        factor, potrf = np.empty_like(x, order="C"), _lapack("potrf", x)
        for i in np.ndindex(info.shape):
            factor[i], info[i] = potrf(x[i], lower=True, clean=True)
    unknown = np.isnan(np.diagonal(factor, axis1=-2, axis2=-1))
    if np.any(unknown):  # some builds of LAPACK let NaN pass
        info = np.where(info == 0, (unknown.argmax(-1) + 1) * unknown.any(-1), info).astype(np.int32)
    return factor, info


@_quiet
def lu_factor(x: Array) -> tuple[Array, Array, Array]:
    """`L` below the diagonal and `U` from it on, in one matrix; pivots; `info`."""
    rank = min(x.shape[-2:])
    out, info = np.empty_like(x, order="C"), _no_info(x)
    pivots = np.empty((*x.shape[:-2], rank), np.int32)
    if not out.size:
        pivots[...] = np.arange(1, rank + 1)
        return out, pivots, info
    if info.size > _MANY * rank:
        return _eliminate(x, rank)
    getrf = _lapack("getrf", x)
    for i in np.ndindex(info.shape):
        out[i], pivots[i], info[i] = getrf(x[i])
    return out, pivots + 1, info


def _eliminate(x: Array, rank: int) -> tuple[Array, Array, Array]:
    """Gaussian elimination of all matrices at once, column after column, with LAPACK's choice of pivots."""
    out, info = np.array(x, order="C"), _no_info(x)
    pivots = np.empty((*x.shape[:-2], rank), np.int32)
    for k in range(rank):
        below = out[..., k:, k]
        size = np.abs(below.real) + np.abs(below.imag) if x.dtype.kind == "c" else np.abs(below)
        place = k + size.argmax(-1)
        pivots[..., k] = place + 1
        at = place[..., None, None]
        moved = np.take_along_axis(out, at, -2)
        np.put_along_axis(out, at, out[..., k : k + 1, :].copy(), -2)
        out[..., k : k + 1, :] = moved
        pivot = out[..., k : k + 1, k]
        is_zero = pivot == 0
        info[(info == 0) & is_zero[..., 0]] = k + 1
        out[..., k + 1 :, k] /= np.where(is_zero, 1, pivot)
        out[..., k + 1 :, k + 1 :] -= out[..., k + 1 :, k : k + 1] * out[..., k : k + 1, k + 1 :]
    return out, pivots, info


@_quiet
def ldl_factor(x: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """`L` and the block diagonal `D` in one lower triangle; pivots, negative where a block is 2 by 2; `info`."""
    out, info = np.empty_like(x, order="C"), _no_info(x)
    pivots = np.empty(x.shape[:-1], np.int32)
    if out.size:
        sytrf = _lapack("hetrf" if hermitian and x.dtype.kind == "c" else "sytrf", x)
        for i in np.ndindex(info.shape):
            out[i], pivots[i], info[i] = sytrf(x[i], lower=True)
    return out, pivots, info


@_quiet
def qr(x: Array, complete: bool) -> tuple[Array, Array]:
    """Orthonormal columns, as many as rows if `complete`, and the upper triangle."""
    q, r = np.linalg.qr(x, "complete" if complete else "reduced")
    return q, r


@_quiet
def geqrf(x: Array) -> tuple[Array, Array]:
    """`R`, below its diagonal the Householder vectors, and their factors."""
    h, tau = np.linalg.qr(x, "raw")
    return np.ascontiguousarray(np.swapaxes(h, -1, -2)).astype(x.dtype), tau.astype(x.dtype)


def permutation(pivots: Array, size: int) -> Array:
    """The order that exchanging row `i` with row `pivots[i] - 1`, one after another, gives `size` rows."""
    order = np.broadcast_to(np.arange(size), (*pivots.shape[:-1], size)).copy()
    for i in range(pivots.shape[-1]):
        j = pivots[..., i, None].astype(np.int64) - 1
        moved = np.take_along_axis(order, j, -1)
        np.put_along_axis(order, j, order[..., i, None].copy(), -1)
        order[..., i, None] = moved
    return order


# -------------------------------------------------------------------------------------------------- spectra


@_quiet
def eigh(x: Array, upper: bool) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices of which one triangle is read."""
    check_finite("linalg.eigh", triangle(x, upper))
    try:
        values, vectors = np.linalg.eigh(x, "U" if upper else "L")
    except np.linalg.LinAlgError:
        raise _diverged("linalg.eigh") from None
    return values, vectors


@_quiet
def eigvalsh(x: Array, upper: bool) -> Array:
    """The eigenvalues alone."""
    check_finite("linalg.eigh", triangle(x, upper))
    try:
        return np.linalg.eigvalsh(x, "U" if upper else "L")
    except np.linalg.LinAlgError:
        raise _diverged("linalg.eigh") from None


@_quiet
def eig(x: Array) -> tuple[Array, Array]:
    """Complex eigenvalues and eigenvectors of any square matrices."""
    check_finite("linalg.eig", x)
    try:
        values, vectors = np.linalg.eig(x)
    except np.linalg.LinAlgError:
        raise _diverged("linalg.eig") from None
    dtype = np.result_type(x.dtype, np.complex64)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


@_quiet
def eigvals(x: Array) -> Array:
    """The eigenvalues alone."""
    check_finite("linalg.eig", x)
    try:
        return np.linalg.eigvals(x).astype(np.result_type(x.dtype, np.complex64), copy=False)
    except np.linalg.LinAlgError:
        raise _diverged("linalg.eig") from None


@_quiet
def svd(x: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    """`U`, the singular values, descending, and the adjoint of `V`."""
    check_finite("linalg.svd", x)
    try:
        u, s, vh = np.linalg.svd(x, full_matrices)
    except np.linalg.LinAlgError:
        raise _diverged("linalg.svd") from None
    return u, s, vh


@_quiet
def svdvals(x: Array) -> Array:
    """The singular values alone."""
    check_finite("linalg.svd", x)
    try:
        return np.linalg.svd(x, compute_uv=False)
    except np.linalg.LinAlgError:
        raise _diverged("linalg.svd") from None


# ------------------------------------------------------------------------------------------------- solutions


@_quiet
def solve(a: Array, b: Array) -> tuple[Array, Array]:
    """`x` with `a @ x = b`, and `info`: for singular matrices the first zero pivot, counted from 1."""
    try:
        return np.linalg.solve(a, b), _no_info(a)
    except np.linalg.LinAlgError:
        factor, pivots, info = lu_factor(a)
        out, getrs = np.empty_like(b, order="C"), _lapack("getrs", a)
        for i in np.ndindex(info.shape):
            out[i] = getrs(factor[i], pivots[i] - 1, b[i])[0]
        return out, info


@_quiet
def inverse(x: Array) -> tuple[Array, Array]:
    """The inverse, and `info` as of `solve`."""
    try:
        return np.linalg.inv(x), _no_info(x)
    except np.linalg.LinAlgError:
        return solve(x, np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape))


@_quiet
def solve_triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """`x` with `a @ x = b` for triangular matrices; what is not of the triangle is not read."""
    n, count = a.shape[-1], a[..., 0, 0].size if a.size else 0
    if not b.size:
        return np.empty_like(b, order="C")
    if count > _MANY * n:
        return _substitute(a, b, upper, unit)
    trsm = _blas("trsm", a)
    out = np.empty_like(b, order="C")
    for i in np.ndindex(a.shape[:-2]):
        # Fortran's order is the transpose's
        out[i] = trsm(1.0, a[i].T, b[i], lower=upper, trans_a=1, diag=unit)
    return out


def _substitute(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """Row after row, for all matrices at once."""
    n = a.shape[-1]
    out = np.array(b, order="C")
    for i in range(n - 1, -1, -1) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        row = out[..., i : i + 1, :]
        row -= a[..., i : i + 1, known] @ out[..., known, :]
        if not unit:
            row /= a[..., i : i + 1, i : i + 1]
    return out


@_quiet
def ldl_solve(factor: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """`x` with `a @ x = b`, from what `ldl_factor` gives of `a`."""
    out = np.empty_like(b, order="C")
    if out.size:
        sytrs = _lapack("hetrs" if hermitian and factor.dtype.kind == "c" else "sytrs", factor)
        for i in np.ndindex(factor.shape[:-2]):
            out[i] = sytrs(factor[i], pivots[i], b[i], lower=True)[0]
    return out


@_quiet
def lstsq(a: Array, b: Array, rcond: float, driver: str) -> tuple[Array, Array, Array]:
    """`x` with the least `|a @ x - b|`, the rank, and the singular values (zeros where the driver has none)."""
    from scipy import linalg  # lazy: loads SciPy

    m, n = a.shape[-2:]
    out = np.zeros((*a.shape[:-2], n, b.shape[-1]), a.dtype)
    rank = np.zeros(a.shape[:-2], np.int64)
    values = np.zeros((*a.shape[:-2], min(m, n)), a.real.dtype)
    if not a.size or not b.size:
        return out, rank, values
    for i in np.ndindex(rank.shape):
        if driver == "gels":
            out[i] = _full_rank_lstsq(a[i], b[i], i)
            rank[i] = min(m, n)
        else:
            out[i], _, rank[i], s = linalg.lstsq(a[i], b[i], rcond, lapack_driver=driver, check_finite=False)
            if s is not None:
                values[i] = s
    return out, rank, values


def _full_rank_lstsq(a: Array, b: Array, place: tuple[int, ...]) -> Array:
    m, n = a.shape
    padded = np.zeros((max(m, n), b.shape[-1]), b.dtype)
    padded[:m] = b
    _, x, info = _lapack("gels", a)(a, padded)
    if info > 0:
        batch = f": (Batch element {place[0]})" if place else ""
        raise LinAlgError(
            f"torch.linalg.lstsq{batch}: The least squares solution could not be computed because the input matrix "
            f"does not have full rank (error code: {info})."
        )
    return x[:n]


@_quiet
def expm(x: Array) -> Array:
    """The matrix exponential, of single precision in double, since elements may differ by many powers of ten."""
    from scipy import linalg  # lazy: loads SciPy

    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    return np.asarray(linalg.expm(x.astype(wide)), x.dtype) if x.size else x.copy()


@_quiet
def cofactors(x: Array) -> Array:
    """The derivative of the determinant: `det(x) * inv(x).T`, singular matrices included."""
    n = x.shape[-1]
    if not x.size:
        return np.zeros_like(x)
    det, (inv, info) = np.linalg.det(x), inverse(x)
    out = det[..., None, None] * np.swapaxes(inv, -1, -2)
    condition = np.abs(x).sum((-1, -2)) * np.abs(inv).sum((-1, -2))
    bad = ~((info == 0) & (condition < np.finfo(x.dtype).eps ** -0.5)) | ~np.isfinite(out).all((-1, -2))
    bad &= np.isfinite(x).all((-1, -2))
    if np.any(bad):
        u, s, vh = svd(x[bad], True)
        before = np.cumprod(np.concatenate([np.ones_like(s[:, :1]), s[:, :-1]], -1), -1)
        behind = np.cumprod(np.concatenate([np.ones_like(s[:, :1]), s[:, :0:-1]], -1), -1)[:, ::-1]
        turn = np.linalg.det(u) * np.linalg.det(vh)
        out[bad] = (np.conj(u) * (turn[:, None, None] * (before * behind)[:, None, :])) @ np.conj(vh)
    return out.reshape(*x.shape[:-2], n, n)


@_quiet
def lobpcg(operands: Any, count: int, largest: bool, steps: int, tol: float) -> tuple[Array, Array]:
    """Extreme eigenvalues, the most extreme first, and their vectors, of `a`, `start` and perhaps `b`."""
    from scipy.sparse import linalg  # lazy: loads SciPy

    a, start, *rest = operands
    values = np.empty((*a.shape[:-2], count), a.dtype)
    vectors = np.empty((*a.shape[:-1], count), a.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of slow convergence: as PyTorch, the best found is given
        for i in np.ndindex(a.shape[:-2]):
            metric = rest[0][i] if rest else None
            found, at = linalg.lobpcg(a[i], start[i], metric, tol=tol, maxiter=steps, largest=largest)
            order = np.argsort(-found if largest else found)[:count]
            values[i], vectors[i] = found[order], at[:, order]
    return values, vectors
