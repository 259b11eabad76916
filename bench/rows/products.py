"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Params, Program, Row, Tools, item_size, tensor


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def matmul(tools: Tools, p: Params) -> Program:
    """`x @ x`."""
    x = tensor(tools.m, _normal(p["n"], p["n"]), p["dtype"])
    f = tools.forward(lambda x: x @ x)
    return lambda: f(x)


def matmul_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax

    x = jax.numpy.asarray(_normal(p["n"], p["n"]), p["dtype"])
    f = jax.jit(lambda x: x @ x)
    return lambda: f(x)


def _image_and_weight(p: Params) -> tuple[Any, Any]:
    k, weight = p["kernel"], (p["out"], p["channels"], p["kernel"], p["kernel"])
    return _normal(p["batch"], p["channels"], p["side"], p["side"]), _normal(*weight) / np.float32(k * k)


def conv(tools: Tools, p: Params) -> Program:
    """`conv2d` with padding that keeps the size."""
    x, w = (tensor(tools.m, v, p["dtype"]) for v in _image_and_weight(p))
    f = tools.forward(lambda x, w: tools.m.nn.functional.conv2d(x, w, padding=p["kernel"] // 2))
    return lambda: f(x, w)


def conv_jax(p: Params) -> Program:
    """The same in JAX."""
    import jax

    x, w = (jax.numpy.asarray(v, p["dtype"]) for v in _image_and_weight(p))
    f = jax.jit(lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"))
    return lambda: f(x, w)


def _conv(channels: int, side: int, out: int, kernel: int = 3, dtype: str = "float32") -> Params:
    return {"batch": 32, "channels": channels, "side": side, "out": out, "kernel": kernel, "dtype": dtype}


_MATMUL = {
    "table": {"n": 1024, "dtype": "float32"},
    **{str(n): {"n": n, "dtype": "float32"} for n in (32, 129, 512, 2048)},
    **{d: {"n": 1024, "dtype": d} for d in ("float64", "bfloat16")},
}
_CONV = {
    "table": _conv(64, 32, 64),
    "first": _conv(3, 32, 16),
    "narrow": _conv(16, 32, 16),
    "deep": _conv(128, 16, 128),
    "1x1": _conv(64, 32, 128, 1),
    "odd": _conv(37, 29, 51),
    "5x5": _conv(32, 28, 32, 5),
    **{d: _conv(64, 32, 64, dtype=d) for d in ("float64", "bfloat16")},
}


def _conv_flops(p: Params) -> float:
    return 2.0 * p["batch"] * p["side"] ** 2 * p["channels"] * p["out"] * p["kernel"] ** 2


def _conv_traffic(p: Params) -> float:
    return float(p["batch"] * p["side"] ** 2 * (p["channels"] + p["out"]) * item_size(p["dtype"]))


ROWS = (
    Row("matmul", "x @ x, 1024", 1.0, _MATMUL, matmul, matmul_jax,
        flops=lambda p: 2.0 * p["n"] ** 3, traffic=lambda p: 2.0 * p["n"] ** 2 * item_size(p["dtype"])),
    Row("conv", "conv 32x64x32x32, 64x64x3x3, padding 1", 0.95, _CONV, conv, conv_jax,
        flops=_conv_flops, traffic=_conv_traffic),
)  # fmt: skip
