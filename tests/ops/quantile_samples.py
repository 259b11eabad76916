"""Samples of quantile functions."""

import numpy as np
from ops.sampling import Sample, rng

from jitgrad.ir.ops.quantile_functions import BinomialQuantile, GammaQuantile, PoissonQuantile


def _uniform(n=64):
    return np.concatenate([[0.0, 1.0 - 2.0**-53], rng(0).random(n - 2)])


def _poisson():
    for rate in (0.0, 0.3, 4.0, 1000.0):
        yield Sample(PoissonQuantile(), (_uniform(), np.full(64, rate)))


def _binomial():
    for count, p in ((0.0, 0.5), (10.0, 0.0), (10.0, 1.0), (10.0, 0.3), (1000.0, 0.01)):
        yield Sample(BinomialQuantile(), (_uniform(), np.full(64, count), np.full(64, p)))


def _gamma():
    for alpha in (0.1, 1.0, 20.0):
        yield Sample(GammaQuantile(), (_uniform(), np.full(64, alpha)))


TABLE = {"poisson_quantile": _poisson, "binomial_quantile": _binomial, "gamma_quantile": _gamma}
