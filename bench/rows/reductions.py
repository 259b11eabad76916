"""Rows and columns: softmax, normalisation, losses, sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Params, Program, Row, Tools, item_size, tensor


def _matrix(p: Params) -> Any:
    return np.random.default_rng(0).standard_normal((p["rows"], p["columns"]), np.float32)


def softmax(tools: Tools, p: Params) -> Program:
    """Softmax over rows."""
    x = tensor(tools.m, _matrix(p), p["dtype"])
    f = tools.forward(lambda x: tools.m.softmax(x, 1))
    return lambda: f(x)


def softmax_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax

    x = jax.numpy.asarray(_matrix(p), p["dtype"])
    f = jax.jit(lambda x: jax.nn.softmax(x, axis=1))
    return lambda: f(x)


def column_sum(tools: Tools, p: Params) -> Program:
    """`(x * x).sum(0)`."""
    x = tensor(tools.m, _matrix(p), p["dtype"])
    f = tools.forward(lambda x: (x * x).sum(0))
    return lambda: f(x)


def column_sum_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax

    x = jax.numpy.asarray(_matrix(p), p["dtype"])
    f = jax.jit(lambda x: (x * x).sum(0))
    return lambda: f(x)


def _weights(p: Params) -> Any:
    """Not all equal: with equal ones the gradient is rounding alone."""
    return np.linspace(0.5, 1.5, p["columns"], dtype="f4")


def layer_norm(tools: Tools, p: Params) -> Program:
    """`(layer_norm(x, w, b) ** 2).mean()` and its gradients."""
    m = tools.m
    x = tensor(m, _matrix(p), p["dtype"]).requires_grad_()
    w = tensor(m, _weights(p), p["dtype"]).requires_grad_()
    b = m.zeros(p["columns"], dtype=x.dtype, requires_grad=True)
    f = tools.forward(lambda x, w, b: (m.nn.functional.layer_norm(x, (p["columns"],), w, b) ** 2).mean())
    return tools.step(lambda: m.autograd.grad(f(x, w, b), (x, w, b)))


def layer_norm_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax
    from jax import numpy as jnp

    x = jnp.asarray(_matrix(p), p["dtype"])
    w, b = jnp.asarray(_weights(p), x.dtype), jnp.zeros(p["columns"], x.dtype)

    def loss(x: Any, w: Any, b: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        normal = centred / jnp.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5)
        return ((normal * w + b) ** 2).mean()

    f = jax.jit(jax.grad(loss, (0, 1, 2)))
    return lambda: f(x, w, b)


def _targets(p: Params) -> Any:
    return np.random.default_rng(1).integers(0, p["columns"], p["rows"])


def cross_entropy(tools: Tools, p: Params) -> Program:
    """The mean cross entropy and its gradient."""
    m = tools.m
    x, y = tensor(m, _matrix(p), p["dtype"]).requires_grad_(), m.from_numpy(_targets(p))
    f = tools.forward(m.nn.functional.cross_entropy)
    return tools.step(lambda: m.autograd.grad(f(x, y), (x,)))


def cross_entropy_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax
    from jax import numpy as jnp

    x, y = jnp.asarray(_matrix(p), p["dtype"]), jnp.asarray(_targets(p))

    def loss(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    f = jax.jit(jax.grad(loss))
    return lambda: f(x, y)


def _sizes(rows: int, columns: int) -> dict[str, Params]:
    def size(r: int, c: int, dtype: str = "float32") -> Params:
        return {"rows": r, "columns": c, "dtype": dtype}

    shapes = ((128, 128), (65536, 50), (64, 50257), (1000, 777))
    found = {"table": size(rows, columns)} | {f"{r}x{c}": size(r, c) for r, c in shapes}
    return found | {dtype: size(rows, columns, dtype) for dtype in ("float64", "bfloat16")}


def _elements(p: Params) -> float:
    return float(p["rows"] * p["columns"])


ROWS = (
    Row("softmax", "softmax over rows, 4096 x 1024", 0.9, _sizes(4096, 1024), softmax, softmax_jax,
        flops=lambda p: 20 * _elements(p), traffic=lambda p: 2 * _elements(p) * item_size(p["dtype"])),
    Row("layer_norm", "layer_norm, square, mean; fwd + bwd, 4096 x 1024", 0.6, _sizes(4096, 1024), layer_norm,
        layer_norm_jax, flops=lambda p: 25 * _elements(p), traffic=lambda p: 2 * _elements(p) * item_size(p["dtype"])),
    Row("cross_entropy", "cross entropy; fwd + bwd, 4096 x 1000", 0.6, _sizes(4096, 1000), cross_entropy,
        cross_entropy_jax, flops=lambda p: 40 * _elements(p),
        traffic=lambda p: 2 * _elements(p) * item_size(p["dtype"])),
    Row("column_sum", "(x*x).sum(0), 4096 x 1024", 1.0, _sizes(4096, 1024), column_sum, column_sum_jax,
        flops=lambda p: 2 * _elements(p), traffic=lambda p: _elements(p) * item_size(p["dtype"])),
)  # fmt: skip
