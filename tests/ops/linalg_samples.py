"""Samples of linear algebra: single matrices and batches, square, wide, tall, empty and singular ones."""

import numpy as np
from ops.sampling import COMPLEX, Sample, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.determinant import Cofactors, Det, SlogDet
from jitgrad.ir.ops.factorization import Cholesky, Geqrf, LdlFactor, LdlSolve, LuFactor, Permutation, Qr
from jitgrad.ir.ops.lobpcg import Lobpcg
from jitgrad.ir.ops.matrices import Matrix
from jitgrad.ir.ops.matrix_function import MatrixExp
from jitgrad.ir.ops.solve import CholeskySolve, Inverse, Lstsq, Pinv, Solve, SolveTriangular
from jitgrad.ir.ops.spectral import Eig, Eigh, EighVals, EigVals, Svd, SvdVals

SINGLE = (dtypes.float32, dtypes.float64, *COMPLEX)
DOUBLE = (dtypes.float64, dtypes.complex128)
SQUARE = [(3, 3), (2, 4, 4), (1, 1), (0, 3, 3), (2, 0, 0)]
SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (0, 2, 3), (2, 3, 0), (0, 2)]
# Errors grow with the condition of a matrix: those drawn here have one of at most about a hundred.
ULPS = 512


def _torch(path):
    """PyTorch's function of that name, found when it is called."""

    def call(*arguments, **options):
        import torch

        found = torch
        for name in path.split("."):
            found = getattr(found, name)
        return found(*arguments, **options)

    return call


def regular(shape, dtype, seed=0):
    """Random matrices with a heavy diagonal."""
    return uniform(shape, dtype, seed=seed) + (3 * np.eye(shape[-2], shape[-1])).astype(dtype.np)


def positive(shape, dtype, seed=0):
    """Random Hermitian matrices with positive eigenvalues, none of them near another."""
    x = uniform(shape, dtype, seed=seed)
    n = shape[-1]
    return (np.conj(np.swapaxes(x, -1, -2)) @ x / 4 + np.diag(np.arange(1, n + 1))).astype(dtype.np)


def _hermitian(b, x):
    """The mean of a matrix and its adjoint."""
    m = Matrix(b, x)
    return (m + m.mH) * 0.5


def _of_hermitian(op, invariant=lambda b, *results: results):
    """The op of a matrix made Hermitian, and of its results what does not depend on phases."""
    return lambda b, x: invariant(b, *b.emit(op, _hermitian(b, x).value))


def _weighted(left, right):
    """`left @ diag(1, 2, ...) @ right`."""
    terms = [left.part(-1, i, 1) @ right.part(-2, i, 1) * (1.0 + i) for i in range(left.shape[-1])]
    return sum(terms[1:], terms[0])


def _values_and_projections(b, values, vectors):
    v = Matrix(b, vectors)
    return values, _weighted(v, v.mH).value


def _values_and_sizes(b, x, op):
    values, vectors = b.emit(op, x)
    v = Matrix(b, vectors)
    return values, (v * v.conj).real.value


def _singular_values_and_product(b, u, s, vh):
    k = s.shape[-1]
    return s, _weighted(Matrix(b, u).part(-1, 0, k), Matrix(b, vh).part(-2, 0, k)).value


def _cholesky():
    for shape in SQUARE:
        for op in (Cholesky(), Cholesky(upper=True)):
            for dtype in SINGLE:
                yield Sample(
                    op, (positive(shape, dtype),), _torch("linalg.cholesky_ex"), smooth=0 not in shape,
                    ulps=ULPS, differentiated=_of_hermitian(op, lambda b, factor, info: [factor]),
                )  # fmt: skip


def _qr():
    for shape in SHAPES:
        for complete in (False, True):
            for dtype in SINGLE:
                mode = "complete" if complete else "reduced"
                oracle = lambda x, mode=mode: _torch("linalg.qr")(x, mode)  # noqa: E731
                smooth = 0 not in shape and not (complete and shape[-2] > shape[-1])
                # beyond the rank, columns are any
                shown = oracle if smooth or not complete else None
                yield Sample(Qr(complete), (uniform(shape, dtype),), shown, smooth=smooth, ulps=ULPS)


def _lu_factor():
    for shape in (*SHAPES, (20, 3, 3), (20, 4, 2), (20, 2, 4)):
        for dtype in SINGLE:
            array = uniform(shape, dtype, seed=3)
            smooth = 0 not in shape and 20 not in shape
            yield Sample(LuFactor(), (array,), _torch("linalg.lu_factor_ex"), smooth=smooth, ulps=ULPS)
    yield Sample(LuFactor(), (np.zeros((20, 2, 2)),), _torch("linalg.lu_factor_ex"), label=" singular")


def _permutation():
    for pivots, size in (([3, 3, 3], 3), ([[2, 2], [1, 2]], 4), ([], 2)):
        for inverse in (False, True):
            yield Sample(Permutation(size, inverse), (np.array(pivots, np.int32),))


def _geqrf():
    for shape in SHAPES:
        for dtype in SINGLE:
            yield Sample(Geqrf(), (uniform(shape, dtype),), _torch("geqrf"), ulps=ULPS)


def _ldl_factor():
    for shape in SQUARE:
        for dtype in SINGLE:
            for hermitian in (False, True):
                yield Sample(LdlFactor(hermitian), (positive(shape, dtype),))


def _ldl_solve():
    for shape in SQUARE:
        for dtype in SINGLE:
            for hermitian in (False, True):
                x = positive(shape, dtype) - 2 * np.eye(shape[-1], dtype=dtype.np)
                x = x if hermitian else np.tril(x) + np.swapaxes(np.tril(x, -1), -1, -2)
                factor, pivots, _ = LdlFactor(hermitian).reference(x)
                rhs = uniform((*shape[:-1], 2), dtype, seed=1)
                solved = lambda f, p, r, x=x: _torch("linalg.solve")(_torch("from_numpy")(x), r)  # noqa: E731
                yield Sample(LdlSolve(hermitian), (factor, pivots, rhs), solved, ulps=4 * ULPS)


def _eigh(op, invariant):
    def build():
        for shape in SQUARE:
            for dtype in SINGLE:
                for upper in (False, True):

                    def oracle(x, triangle="U" if upper else "L"):
                        return _torch("linalg.eigvalsh")(x, triangle)

                    yield Sample(
                        op(upper), (positive(shape, dtype),), oracle, smooth=0 not in shape, ulps=ULPS,
                        differentiated=_of_hermitian(op(upper), invariant),
                    )  # fmt: skip

    return build


def _eig(op):
    def build():
        for shape in SQUARE:
            for dtype in SINGLE:
                pairs = lambda b, x: _values_and_sizes(b, x, Eig())  # noqa: E731
                yield Sample(
                    op(), (uniform(shape, dtype, seed=5),), smooth=0 not in shape,
                    differentiated=pairs if op is Eig else None,
                )  # fmt: skip

    return build


def _lobpcg():
    for shape in ((6, 6), (2, 7, 7), (0, 6, 6)):
        for largest in (True, False):
            op = Lobpcg(2, largest, 200, 1e-13)

            def both(b, x, start, op=op):
                symmetric = Matrix(b, x)
                symmetric = (symmetric + symmetric.mT) * 0.5
                return _values_and_projections(b, *b.emit(op, symmetric.value, start))

            for dtype in SINGLE[:2]:
                arrays = (positive(shape, dtype), uniform((*shape[:-1], 2), dtype, seed=4))
                yield Sample(op, arrays, smooth=0 not in shape, differentiated=both)


def _svd():
    for shape in SHAPES:
        for full in (False, True):
            for dtype in SINGLE:
                op, array = Svd(full), uniform(shape, dtype, seed=2)
                product = lambda b, x, op=op: _singular_values_and_product(b, *b.emit(op, x))  # noqa: E731
                yield Sample(op, (array,), smooth=0 not in shape, differentiated=product)


def _svdvals():
    for shape in SHAPES:
        for dtype in SINGLE:
            array = uniform(shape, dtype, seed=2)
            yield Sample(SvdVals(), (array,), _torch("linalg.svdvals"), smooth=0 not in shape, ulps=ULPS)


def _solve_triangular():
    for shape in (*SQUARE, (20, 2, 2)):
        for upper in (False, True):
            for unit in (False, True):

                def oracle(a, rhs, upper=upper, unit=unit):
                    return _torch("linalg.solve_triangular")(a, rhs, upper=upper, unitriangular=unit)

                for dtype in SINGLE:
                    arrays = (regular(shape, dtype), uniform((*shape[:-1], 2), dtype, seed=1))
                    yield Sample(SolveTriangular(upper, unit), arrays, oracle, smooth=shape[0] in (2, 3), ulps=ULPS)


def _cholesky_solve():
    for shape in (*SQUARE, (20, 2, 2)):
        for dtype in SINGLE:
            arrays = (regular(shape, dtype), uniform((*shape[:-1], 2), dtype, seed=1))
            triangle = lambda b, f, rhs: [b(CholeskySolve(), Matrix(b, f).tril().value, rhs)]  # noqa: E731
            yield Sample(
                CholeskySolve(), arrays, lambda f, rhs: _torch("cholesky_solve")(rhs, f),
                smooth=0 not in shape, ulps=ULPS, differentiated=triangle,
            )  # fmt: skip


def _solve():
    for shape in SQUARE:
        for dtype in SINGLE:
            arrays = (regular(shape, dtype), uniform((*shape[:-1], 2), dtype, seed=1))
            yield Sample(Solve(), arrays, _torch("linalg.solve_ex"), smooth=0 not in shape, ulps=ULPS)
    singular = np.array([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]]])
    yield Sample(Solve(), (singular, np.ones((2, 2, 1))), label=" singular")


def _inverse():
    for shape in SQUARE:
        for dtype in SINGLE:
            yield Sample(Inverse(), (regular(shape, dtype),), _torch("linalg.inv_ex"), smooth=0 not in shape, ulps=ULPS)
    yield Sample(Inverse(), (np.zeros((2, 2)),), label=" singular")


def _lstsq():
    for shape in SHAPES[:6]:
        for driver in ("gels", "gelsy", "gelsd", "gelss"):

            def oracle(a, rhs, driver=driver):
                return _torch("linalg.lstsq")(a, rhs, driver=driver)[:1]

            for dtype in SINGLE:
                arrays = (regular(shape, dtype), uniform((*shape[:-1], 2), dtype, seed=1))
                op = Lstsq(driver, 1e-7)
                yield Sample(
                    op, arrays, oracle if shape[0] else None, smooth=0 not in shape, ulps=ULPS,
                    differentiated=lambda b, a, rhs, op=op: b.emit(op, a, rhs)[:1],
                )  # fmt: skip


def _pinv():
    for shape in SHAPES:
        for dtype in SINGLE:
            limits = [np.full(shape[:-2], x, dtypes.to_real(dtype).np) for x in (0.0, 1e-6)]
            yield Sample(
                Pinv(), (regular(shape, dtype), *limits), lambda x, a, r: _torch("linalg.pinv")(x, atol=a, rtol=r),
                smooth=0 not in shape, ulps=ULPS,
            )  # fmt: skip


def _determinants(op, name):
    def build():
        for shape in SQUARE:
            for dtype in SINGLE:
                oracle = None if name is None else _torch(name)
                yield Sample(op(), (regular(shape, dtype),), oracle, smooth=0 not in shape, ulps=ULPS)
        if op is SlogDet:
            return
        for rank in range(3):
            x = uniform((3, rank), dtypes.float64) @ uniform((rank, 3), dtypes.float64, seed=1)
            yield Sample(op(), (x,), smooth=op is Det or rank == 2, ulps=ULPS, label=f" of rank {rank}")
        yield Sample(op(), (np.eye(4),), smooth=op is Det, label=" identity")

    return build


def _matrix_exp():
    for shape in SQUARE:
        for dtype in SINGLE:
            x = uniform(shape, dtype)
            yield Sample(MatrixExp(), (x,), _torch("matrix_exp"), smooth=0 not in shape, ulps=ULPS)


TABLE = {
    "cholesky": _cholesky,
    "qr": _qr,
    "lu_factor": _lu_factor,
    "permutation": _permutation,
    "geqrf": _geqrf,
    "ldl_factor": _ldl_factor,
    "ldl_solve": _ldl_solve,
    "eigh": _eigh(Eigh, _values_and_projections),
    "eigvalsh": _eigh(EighVals, lambda b, values: [values]),
    "eig": _eig(Eig),
    "eigvals": _eig(EigVals),
    "lobpcg": _lobpcg,
    "svd": _svd,
    "svdvals": _svdvals,
    "solve_triangular": _solve_triangular,
    "cholesky_solve": _cholesky_solve,
    "solve": _solve,
    "inverse": _inverse,
    "lstsq": _lstsq,
    "pinv": _pinv,
    "det": _determinants(Det, "linalg.det"),
    "cofactors": _determinants(Cofactors, None),
    "slogdet": _determinants(SlogDet, "linalg.slogdet"),
    "matrix_exp": _matrix_exp,
}
