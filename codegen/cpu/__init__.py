"""The CPU backend: emission of kernels as LLVM, the native driver, BLAS, threads."""
