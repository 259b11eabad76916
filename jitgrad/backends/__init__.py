"""PyTorch's switches of libraries that it computes with, and jitgrad does not: set by scripts, and without effect."""

from . import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
