"""Which functions autocast runs in which type, by device type: PyTorch's lists, in jitgrad's names.

`LOWER` runs in the autocast type, `FLOAT32` in float32, `WIDEST` in the widest type among the arguments. What is not
listed runs in the types it is given, as does what is `AS_GIVEN`, but that is one function to PyTorch: autocast is off
inside. A rule may depend on the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LOWER, FLOAT32, WIDEST, AS_GIVEN, FORBIDDEN = "lower", "float32", "widest", "as given", "forbidden"

Rule = str | Callable[..., str | None]


def _padding(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> str | None:
    """Reflection of one or two axes and replication are on the CPU's list; constants and wrapping are not."""
    return FLOAT32 if mode == "replicate" or (mode == "reflect" and len(pad) <= 4) else None


def _pooling(*args: Any, return_indices: bool = False, **kwargs: Any) -> str | None:
    """With indices, pooling is another function to PyTorch, and not on the list."""
    return None if return_indices or (len(args) > 6 and args[6]) else FLOAT32


def _contraction(a: Any, b: Any, dims: Any = 2, *rest: Any, **kwargs: Any) -> str:
    """A matrix product, or where one number is left an inner one, which is not on the list."""
    if isinstance(dims, int):
        dims = (range(a.ndim - dims, a.ndim), range(dims))
    free = [n for t, bound in zip((a, b), dims, strict=True) for n in _others(t, bound)]
    return AS_GIVEN if all(n == 1 for n in free) else LOWER


def _others(t: Any, dims: Any) -> list[int]:
    bound = {d % t.ndim for d in dims} if t.ndim else set()
    return [n for d, n in enumerate(t.shape) if d not in bound]


def _unless_dtype(*args: Any, **kwargs: Any) -> str | None:
    return None if kwargs.get("dtype") is not None else FLOAT32


_CONVOLUTIONS = (
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
)  # fmt: skip
_PRODUCTS = (
    "addbmm", "addmm", "baddbmm", "bmm", "linalg_vecdot", "linear", "matmul", "mm", "scaled_dot_product_attention",
)  # fmt: skip
_LOSSES = (
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "hinge_embedding_loss", "huber_loss", "kl_div",
    "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "nll_loss",
    "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
)  # fmt: skip
_DECOMPOSITIONS = (
    "cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "inverse", "linalg_cholesky", "linalg_cholesky_ex",
    "linalg_cond", "linalg_eig", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh", "linalg_householder_product",
    "linalg_inv", "linalg_inv_ex", "linalg_lstsq", "linalg_matrix_rank", "linalg_qr", "linalg_solve", "linalg_svd",
    "linalg_svdvals", "linalg_tensorinv", "linalg_tensorsolve", "lu", "lu_solve", "orgqr", "ormqr", "pinverse", "qr",
    "svd", "triangular_solve",
)  # fmt: skip
_TRANSFORMS = tuple(
    f"fft_{name}"
    for name in ("fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2", "irfftn", "rfft",
                 "rfft2", "rfftn")
)  # fmt: skip
_POOLS = (
    "adaptive_avg_pool3d", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool3d",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
)  # fmt: skip

CPU: Mapping[str, Rule] = {
    **dict.fromkeys((*_CONVOLUTIONS, *_PRODUCTS, "prelu"), LOWER),
    **dict.fromkeys((*_LOSSES, *_DECOMPOSITIONS, *_TRANSFORMS, *_POOLS), FLOAT32),
    **dict.fromkeys(
        ("binary_cross_entropy", "cdist", "cross_entropy", "ctc_loss", "grid_sample", "grid_sampler",
         "grid_sampler_2d", "grid_sampler_3d", "nanquantile", "polar", "prod", "quantile", "stft", "trace",
         "view_as_complex"),
        FLOAT32,
    ),
    **dict.fromkeys(("linalg_multi_dot", "lstm"), LOWER),  # what PyTorch composes them of is
    **dict.fromkeys(("addmv", "dot", "linalg_lu_solve", "mv", "pca_lowrank", "svd_lowrank", "vdot"), AS_GIVEN),
    "max_pool3d": _pooling,
    "pad": _padding,
    "tensordot": _contraction,
    **dict.fromkeys(("cat", "index_copy", "stack"), WIDEST),
}  # fmt: skip

CUDA: Mapping[str, Rule] = {
    **dict.fromkeys((*_CONVOLUTIONS, *_PRODUCTS, "prelu"), LOWER),
    **dict.fromkeys(
        ("addmv", "addr", "chain_matmul", "einsum", "gru_cell", "linalg_multi_dot", "lstm_cell", "mv",
         "rnn_relu_cell", "rnn_tanh_cell"),
        LOWER,
    ),
    **dict.fromkeys(_LOSSES, FLOAT32),
    **dict.fromkeys(
        ("acos", "asin", "cdist", "cosh", "cosine_similarity", "dist", "erfinv", "exp", "expm1", "group_norm",
         "layer_norm", "log", "log10", "log1p", "log2", "logsumexp", "norm", "pdist", "pow", "reciprocal", "renorm",
         "rms_norm", "rsqrt", "sinh", "softplus", "tan"),
        FLOAT32,
    ),
    **dict.fromkeys(
        ("cumprod", "cumsum", "linalg_matrix_norm", "linalg_vector_norm", "log_softmax", "prod", "softmax", "sum"),
        _unless_dtype,
    ),
    **dict.fromkeys(
        ("addcdiv", "addcmul", "atan2", "bilinear", "cat", "cross", "dot", "grid_sample", "grid_sampler", "index_put",
         "scatter_add", "stack", "tensordot", "vdot"),
        WIDEST,
    ),
    "binary_cross_entropy": FORBIDDEN,
}  # fmt: skip

LISTS: Mapping[str, Mapping[str, Rule]] = {"cpu": CPU, "cuda": CUDA}

# Elementwise functions, which have a fast path for small arrays on the CPU: that must not pay for the other device.
POINTWISE = frozenset(
    ("acos", "asin", "atan2", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt",
     "sinh", "tan")
)  # fmt: skip
