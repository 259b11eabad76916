"""Convolutions as tile kernels: which they are, how they are cut, and what they are launched with."""
