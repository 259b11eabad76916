"""The CUDA backend: kernels as numba.cuda source, their compilation, and the runtime they are launched by."""
