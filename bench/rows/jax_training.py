"""The training steps in JAX: parameters as nested containers, one jitted function a step, arguments donated."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .row import Params, Program

Loss = Callable[..., Any]


def _normal(*shape: int, seed: int = 1, scale: float = 1.0) -> Any:
    import jax

    return jax.numpy.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale))


def _linear(n: int, m: int) -> dict[str, Any]:
    return {"w": _normal(n, m, scale=n**-0.5), "b": _normal(m, scale=0.0)}


def _apply(layer: dict[str, Any], x: Any) -> Any:
    return x @ layer["w"] + layer["b"]


def _cross_entropy(logits: Any, targets: Any) -> Any:
    import jax

    return -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1).mean()


def _adam(loss: Loss, parameters: Any, batch: tuple[Any, ...], decay: float = 0.0) -> Program:
    """A jitted step of Adam, or AdamW where `decay` isn't 0."""
    import jax

    tree, jnp = jax.tree_util, jax.numpy

    def step(state: Any, *batch: Any) -> Any:
        parameters, first, second, t = state
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        t = t + 1
        first = tree.tree_map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = tree.tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        scale1, scale2 = 1 / (1 - 0.9**t), 1 / (1 - 0.999**t)
        parameters = tree.tree_map(
            lambda p, m, v: p * (1 - 1e-3 * decay) - 1e-3 * m * scale1 / (jnp.sqrt(v * scale2) + 1e-8),
            parameters, first, second,
        )  # fmt: skip
        return (parameters, first, second, t), value

    zeros = tree.tree_map(jnp.zeros_like, parameters)
    return _loop(step, (parameters, zeros, tree.tree_map(jnp.copy, zeros), jnp.float32(0)), batch)


def _momentum(loss: Loss, parameters: Any, batch: tuple[Any, ...]) -> Program:
    """A jitted step of SGD with momentum."""
    import jax

    tree = jax.tree_util

    def step(state: Any, *batch: Any) -> Any:
        parameters, velocity = state
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        velocity = tree.tree_map(lambda v, g: 0.9 * v + g, velocity, gradients)
        return (tree.tree_map(lambda p, v: p - 0.01 * v, parameters, velocity), velocity), value

    return _loop(step, (parameters, tree.tree_map(jax.numpy.zeros_like, parameters)), batch)


def _loop(step: Any, state: Any, batch: tuple[Any, ...]) -> Program:
    import jax

    compiled = jax.jit(step, donate_argnums=0)

    def run() -> Any:
        nonlocal state
        state, value = compiled(state, *batch)
        return value

    return run


def _perceptron(widths: tuple[int, ...], activation: Any) -> tuple[Any, Any]:
    layers = [_linear(n, m) for n, m in pairwise(widths)]

    def apply(layers: Any, x: Any) -> Any:
        for layer in layers[:-1]:
            x = activation(_apply(layer, x))
        return _apply(layers[-1], x)

    return layers, apply


def _classes(count: int, n: int) -> Any:
    import jax

    return jax.numpy.asarray(np.random.default_rng(2).integers(0, count, n))


def mlp(p: Params) -> Program:
    """784-512-512-10, Adam."""
    import jax

    layers, apply = _perceptron((784, 512, 512, 10), jax.nn.relu)
    batch = _normal(p["batch"], 784), _classes(10, p["batch"])
    return _adam(lambda w, x, y: _cross_entropy(apply(w, x), y), layers, batch)


def small_mlp(p: Params) -> Program:
    """16-32-32-1, SGD."""
    import jax

    layers, apply = _perceptron((16, 32, 32, 1), jax.numpy.tanh)
    batch = _normal(p["batch"], 16), _normal(p["batch"], 1)
    return _momentum(lambda w, x, y: ((apply(w, x) - y) ** 2).mean(), layers, batch)


def _convolve(x: Any, w: Any, stride: int = 1) -> Any:
    import jax

    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _batch_norm(layer: dict[str, Any], x: Any) -> Any:
    import jax

    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * layer["scale"] + layer["shift"]


def _kernel(k: int, n: int, m: int) -> Any:
    return _normal(k, k, n, m, scale=(k * k * n) ** -0.5)


def _norm(width: int) -> dict[str, Any]:
    return {"scale": _normal(width, scale=0.0) + 1, "shift": _normal(width, scale=0.0)}


def _resnet() -> tuple[Any, Any]:
    import jax

    plan, before = [], 16
    for width in (16, 32, 64):
        for i in range(3):
            plan.append((before, width, 2 if i == 0 and width > 16 else 1))
            before = width
    blocks = []
    for n, m, _ in plan:
        block = {"conv1": _kernel(3, n, m), "norm1": _norm(m), "conv2": _kernel(3, m, m), "norm2": _norm(m)}
        blocks.append(block if n == m else {**block, "shortcut": _kernel(1, n, m)})
    parameters = {"stem": _kernel(3, 3, 16), "norm": _norm(16), "blocks": blocks, "head": _linear(64, 10)}

    def apply(w: Any, x: Any) -> Any:
        x = jax.nn.relu(_batch_norm(w["norm"], _convolve(x, w["stem"])))
        for block, (_, _, stride) in zip(w["blocks"], plan, strict=True):
            y = jax.nn.relu(_batch_norm(block["norm1"], _convolve(x, block["conv1"], stride)))
            y = _batch_norm(block["norm2"], _convolve(y, block["conv2"]))
            x = jax.nn.relu(y + (_convolve(x, block["shortcut"], stride) if "shortcut" in block else x))
        return _apply(w["head"], x.mean((1, 2)))

    return parameters, apply


def resnet(p: Params) -> Program:
    """ResNet-20, channels last, which is JAX's faster layout; without running statistics."""
    parameters, apply = _resnet()
    batch = _normal(p["batch"], 32, 32, 3), _classes(10, p["batch"])
    return _momentum(lambda w, x, y: _cross_entropy(apply(w, x), y), parameters, batch)


def _tokens(p: Params) -> tuple[Any, Any]:
    import jax

    tokens = jax.numpy.asarray(np.random.default_rng(3).integers(0, 65, (p["batch"], p["length"] + 1)))
    return tokens[:, :-1], tokens[:, 1:]


def _layer_norm(layer: dict[str, Any], x: Any) -> Any:
    import jax

    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * layer["scale"] + layer["shift"]


def _gpt(length: int) -> tuple[Any, Any]:
    import jax

    jnp = jax.numpy
    blocks = [
        {"norm1": _norm(128), "qkv": _linear(128, 384), "out": _linear(128, 128),
         "norm2": _norm(128), "up": _linear(128, 512), "down": _linear(512, 128)}
        for _ in range(4)
    ]  # fmt: skip
    ends = {"norm": _norm(128), "head": _linear(128, 65)}
    parameters = {"tokens": _normal(65, 128), "places": _normal(length, 128), "blocks": blocks, **ends}

    def apply(w: Any, tokens: Any) -> Any:
        x = w["tokens"][tokens] + w["places"]
        b, t, c = x.shape
        visible = jnp.tril(jnp.ones((t, t), bool))
        for block in w["blocks"]:
            parts = _apply(block["qkv"], _layer_norm(block["norm1"], x)).reshape(b, t, 3, 4, 32)
            q, k, v = (parts[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
            scores = jnp.where(visible, q @ k.swapaxes(2, 3) * 32**-0.5, -jnp.inf)
            y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(b, t, c)
            x = x + _apply(block["out"], y)
            x = x + _apply(block["down"], jax.nn.gelu(_apply(block["up"], _layer_norm(block["norm2"], x))))
        return _apply(w["head"], _layer_norm(w["norm"], x))

    return parameters, apply


def gpt(p: Params) -> Program:
    """Four layers, width 128, four heads, AdamW."""
    parameters, apply = _gpt(p["length"])
    return _adam(lambda w, x, y: _cross_entropy(apply(w, x), y), parameters, _tokens(p), decay=0.01)


def lstm(p: Params) -> Program:
    """Embedding 64, LSTM 256 by `scan`, Adam."""
    import jax

    jnp = jax.numpy
    parameters = {"tokens": _normal(65, 64), "x": _linear(64, 1024), "h": _linear(256, 1024), "head": _linear(256, 65)}

    def apply(w: Any, tokens: Any) -> Any:
        inputs = _apply(w["x"], w["tokens"][tokens]).swapaxes(0, 1)

        def cell(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(x + _apply(w["h"], h), 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((tokens.shape[0], 256))
        return _apply(w["head"], jax.lax.scan(cell, (zero, zero), inputs)[1].swapaxes(0, 1))

    return _adam(lambda w, x, y: _cross_entropy(apply(w, x), y), parameters, _tokens(p))
