"""Linear algebra: `jitgrad.linalg`, with `torch.linalg`'s functions, by LAPACK.

Matrices are the last two dims; dims before them are batches. All functions take float32, float64, complex64 and
complex128, and are differentiable any number of times where PyTorch's are.
"""

from jitgrad.ir.errors import LinAlgError

from .factorizations import (
    cholesky,
    cholesky_ex,
    householder_product,
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
)
from .norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from .products import (
    cross,
    det,
    diagonal,
    matmul,
    matrix_exp,
    matrix_power,
    multi_dot,
    slogdet,
    vander,
    vecdot,
)
from .pseudo_inverse import pinv
from .solving import inv, inv_ex, lstsq, solve, solve_ex, solve_triangular, tensorinv, tensorsolve
from .spectra import eig, eigh, eigvals, eigvalsh, svd, svdvals

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu",
    "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank",
    "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals",
    "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip
