"""Every op, compiled: all samples of an op in one graph, and their gradients in another, on two calls.

What must be equal and what may differ by rounding is the samples' to say, as in the conformance suite.
"""

import numpy as np
import pytest
from ops.samples import samples_of
from ops.test_conformance import assert_close

from jitgrad.codegen.compile import compile_graph
from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.builder import Builder
from jitgrad.ir.interpreter import run
from jitgrad.ir.ops import REGISTRY
from jitgrad.ir.types import TensorType

NAMES = sorted(REGISTRY)
DIFFERENTIABLE = [n for n in NAMES if REGISTRY[n].differentiable]
# Kernels sum in another order than NumPy, and their functions are good to a few units in the last place.
ULPS = 8.0


QUICK = 8  # samples of an op, evenly spread; the slow sweep takes all


def compilable(name):
    """The samples that no complex number takes part in: those run by the reference."""
    return [s for s in samples_of(name) if not any(t.dtype.is_complex for t in s.types)]


def spread(samples, count):
    """At most `count` of the samples, evenly spread."""
    return samples[:: -(-len(samples) // count)] if samples else []


def together(samples, differentiated=False):
    """One graph that applies each sample's op to inputs of its own (or what is to be differentiated); and those."""
    b = Builder()
    operands = [[b.input(t) for t in s.types] for s in samples]
    instead = [s.differentiated if differentiated else None for s in samples]
    outputs = [
        r
        for s, build, xs in zip(samples, instead, operands, strict=True)
        for r in (build(b, *xs) if build else b.emit(s.op, *xs))
    ]
    return b.build(outputs), [a for s in samples for a in s.arrays]


def check(graph, arrays, ulps, magnitude):
    """Compiled equals interpreted, on the first call and the second."""
    want = run(graph, arrays)
    program = compile_graph(graph)
    for _ in range(2):
        for have, expected in zip(program(arrays), want, strict=True):
            assert_close(np.asarray(have), np.asarray(expected), ulps, scale=magnitude)


def check_values(name, count):
    samples = spread(compilable(name), count)
    if not samples:
        pytest.skip("complex numbers run by the reference")
    check(*together(samples), ULPS * max(s.ulps for s in samples), magnitude=1.0)


def check_gradient(name, count):
    smooth = [s for s in compilable(name) if s.smooth and any(a.dtype == np.float64 for a in s.arrays)]
    if not smooth:
        pytest.skip("no float64 sample")
    samples = spread(smooth, count)
    graph, arrays = together(samples, differentiated=True)
    outputs = [i for i, v in enumerate(graph.outputs) if v.type.dtype.is_differentiable]
    wrt = [i for i, v in enumerate(graph.inputs) if v.type.dtype.is_differentiable]
    random = np.random.default_rng(0)
    given = [_normal(random, graph.outputs[i].type) for i in outputs]
    ulps = 8 * ULPS * max(s.ulps for s in samples)
    check(gradient_graph(graph, wrt, outputs), [*arrays, *given], ulps, magnitude=10.0)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_equals_reference(name):
    check_values(name, QUICK)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_compiled_gradient_equals_interpreted(name):
    check_gradient(name, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_samples_compiled_equal_reference(name):
    check_values(name, 10**6)


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_all_compiled_gradients_equal_interpreted(name):
    check_gradient(name, 10**6)


def _normal(random, type: TensorType):
    return np.asarray(random.standard_normal(type.shape)).astype(type.dtype.np)
