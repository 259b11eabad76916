"""Attention by tile kernels: no matrix of weights is ever in memory."""
