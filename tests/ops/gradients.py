"""Checks of gradients by inner products: `<g, J v>` by differences against `<Jᵀ g, v>` by the transform.

The gradient graph is a graph like any other, so the check applies to it again, for second derivatives.
"""

import numpy as np

from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph
from jitgrad.ir.interpreter import run

# Central differences are off by about step² times the third derivative, and by 1e-16 / step of rounding.
STEP = 1e-5
TOLERANCE = 1e-6


def graph_of(sample) -> Graph:
    """The graph of the sample's op alone, or of what it says to differentiate in its place."""
    b = Builder()
    operands = [b.input(t) for t in sample.types]
    return b.build(sample.differentiated(b, *operands) if sample.differentiated else b.emit(sample.op, *operands))


def inner(xs, ys) -> float:
    """The real inner product; the imaginary parts count like another axis."""
    return float(sum(np.sum((np.conj(x) * y).real) for x, y in zip(xs, ys, strict=True)))


def random_like(random, x):
    """Normal numbers of the same kind and shape."""
    y = random.normal(size=x.shape)
    return np.asarray(y + 1j * random.normal(size=x.shape) if x.dtype.kind == "c" else y, x.dtype)


def check_gradients(graph: Graph, arrays, order: int = 2) -> None:
    """Compare the gradient of `graph` with finite differences, and that graph's own, to `order`."""
    wrt = [i for i, a in enumerate(arrays) if a.dtype in (np.float64, np.complex128)]
    outputs = [i for i, v in enumerate(graph.outputs) if v.type.dtype.is_differentiable]
    assert wrt and outputs, "nothing to differentiate: the sample should not be called smooth"
    random = np.random.default_rng(order)
    primal = run(graph, arrays)
    given = [random_like(random, np.asarray(primal[i])) for i in outputs]
    direction = [random_like(random, arrays[i]) for i in wrt]
    full = gradient_graph(graph, wrt, outputs)
    grads = run(full, [*arrays, *given])[len(graph.outputs) :]
    for i, g in zip(wrt, grads, strict=True):
        assert g.shape == arrays[i].shape and g.dtype == arrays[i].dtype
    ahead, behind = (_moved(graph, arrays, wrt, direction, outputs, s) for s in (STEP, -STEP))
    slope = [(p - m) / (2 * STEP) for p, m in zip(ahead, behind, strict=True)]
    want, have = inner(given, slope), inner(grads, direction)
    scale = 1.0 + sum(float(np.sum(np.abs(g) * np.abs(d))) for g, d in zip(grads, direction, strict=True))
    assert abs(want - have) <= TOLERANCE * scale, f"order {3 - order}: {want} by differences, {have} by the rule"
    if order > 1:
        n = len(graph.outputs)
        b = Builder()
        inputs = [b.input(v.type) for v in full.inputs]
        check_gradients(b.build(b.inline(full, inputs)[n:]), [*arrays, *given], order - 1)


def _moved(graph, arrays, wrt, direction, outputs, step):
    moved = list(arrays)
    for i, d in zip(wrt, direction, strict=True):
        moved[i] = arrays[i] + step * d
    out = run(graph, moved)
    return [out[i] for i in outputs]
