"""Maps: one result per element, with and without a change of layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Params, Program, Row, Tools, item_size, tensor


def _normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def gelu(tools: Tools, p: Params) -> Program:
    """`gelu(a + b)`, by tanh."""
    a, b = (tensor(tools.m, _normal(p["n"], seed=s), p["dtype"]) for s in (0, 1))
    f = tools.forward(lambda x, y: tools.m.nn.functional.gelu(x + y, approximate="tanh"))
    return lambda: f(a, b)


def gelu_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax

    a, b = (jax.numpy.asarray(_normal(p["n"], seed=s), p["dtype"]) for s in (0, 1))
    f = jax.jit(lambda x, y: jax.nn.gelu(x + y, approximate=True))
    return lambda: f(a, b)


def _options(n: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(rng.uniform(low, high, n).astype("f4") for low, high in ((50, 150), (60, 140), (0.1, 2.0)))  # type: ignore[return-value]


def _black_scholes(spot: Any, strike: Any, time: Any, log: Any, exp: Any, erf: Any, sqrt: Any) -> tuple[Any, Any]:
    rate, volatility = 0.03, 0.2
    spread = volatility * sqrt(time)
    d1 = (log(spot / strike) + (rate + 0.5 * volatility * volatility) * time) / spread
    d2 = d1 - spread
    below1, below2 = 0.5 + 0.5 * erf(d1 * 0.7071067811865476), 0.5 + 0.5 * erf(d2 * 0.7071067811865476)
    discounted = strike * exp(-rate * time)
    call = spot * below1 - discounted * below2
    return call, call - spot + discounted


def black_scholes(tools: Tools, p: Params) -> Program:
    """Prices of European calls and puts."""
    m = tools.m
    inputs = [tensor(m, x, p["dtype"]) for x in _options(p["n"])]
    f = tools.forward(lambda s, k, t: _black_scholes(s, k, t, m.log, m.exp, m.erf, m.sqrt))
    return lambda: f(*inputs)


def black_scholes_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax
    from jax import numpy as jnp

    inputs = [jnp.asarray(x, p["dtype"]) for x in _options(p["n"])]
    f = jax.jit(lambda s, k, t: _black_scholes(s, k, t, jnp.log, jnp.exp, jax.scipy.special.erf, jnp.sqrt))
    return lambda: f(*inputs)


def transpose(tools: Tools, p: Params) -> Program:
    """`x.t() * 2 + x`."""
    x = tensor(tools.m, _normal(p["n"], p["n"]), p["dtype"])
    f = tools.forward(lambda x: x.t() * 2 + x)
    return lambda: f(x)


def transpose_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax

    x = jax.numpy.asarray(_normal(p["n"], p["n"]), p["dtype"])
    f = jax.jit(lambda x: x.T * 2 + x)
    return lambda: f(x)


def _stencil(roll: Any, x: Any) -> Any:
    return roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4 * x


def stencil(tools: Tools, p: Params) -> Program:
    """The 5-point Laplacian on a torus, by `roll`."""
    x = tensor(tools.m, _normal(p["n"], p["n"]), p["dtype"])
    f = tools.forward(lambda x: _stencil(tools.m.roll, x))
    return lambda: f(x)


def stencil_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax

    x = jax.numpy.asarray(_normal(p["n"], p["n"]), p["dtype"])
    f = jax.jit(lambda x: _stencil(jax.numpy.roll, x))
    return lambda: f(x)


def _sizes(table: int, *others: int) -> dict[str, Params]:
    found = {"table": {"n": table, "dtype": "float32"}}
    found |= {str(n): {"n": n, "dtype": "float32"} for n in others}
    return found | {d: {"n": table, "dtype": d} for d in ("float64", "bfloat16")}


ROWS = (
    Row("gelu", "gelu(a+b) (tanh), 4M", 0.75, _sizes(1 << 22, 1 << 16, 3_000_001), gelu, gelu_jax,
        flops=lambda p: 30.0 * p["n"], traffic=lambda p: 3.0 * p["n"] * item_size(p["dtype"])),
    Row("black_scholes", "Black-Scholes, 2M", 0.8, _sizes(1 << 21, 1 << 16, 1_500_003), black_scholes,
        black_scholes_jax,
        flops=lambda p: 110.0 * p["n"], traffic=lambda p: 5.0 * p["n"] * item_size(p["dtype"]), tolerance=2e-2),
    Row("transpose", "x.t()*2 + x, 2048 x 2048", 0.8, _sizes(2048, 512, 1531), transpose, transpose_jax,
        flops=lambda p: 2.0 * p["n"] ** 2, traffic=lambda p: 2.0 * p["n"] ** 2 * item_size(p["dtype"])),
    Row("stencil", "5-point stencil by roll, 2048 x 2048", 0.9, _sizes(2048, 512, 1531), stencil, stencil_jax,
        flops=lambda p: 5.0 * p["n"] ** 2, traffic=lambda p: 2.0 * p["n"] ** 2 * item_size(p["dtype"])),
)  # fmt: skip
