"""Whole training steps: forward, backward and the optimizer's update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import jax_training
from .models import GPT, CharacterLSTM, perceptron, resnet20
from .row import Params, Program, Row, Tools


def _step(tools: Tools, model: Any, optimizer: Any, loss_of: Callable[[Any, Any, Any], Any], batch: Any) -> Program:
    """`zero_grad`, loss, `backward`, `step` on one batch; gives the loss."""
    forward = tools.forward(lambda x, y: loss_of(model, x, y))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = tools.step(step)
    return lambda: run(*batch)


def _fill(m: Any, model: Any) -> Any:
    """The same parameters for PyTorch and jitgrad: uniform, in the order of their names."""
    rng = np.random.default_rng(0)
    with m.no_grad():
        for _, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 0
            values = rng.uniform(-1, 1, shape) / np.sqrt(fan_in) if fan_in else np.ones(shape) * 0.5
            parameter.copy_(m.from_numpy(values.astype("f4")))
    return model


def _classes(m: Any, count: int, n: int) -> Any:
    return m.from_numpy(np.random.default_rng(2).integers(0, count, n))


def _normal(m: Any, *shape: int) -> Any:
    return m.from_numpy(np.random.default_rng(1).standard_normal(shape, np.float32))


def mlp(tools: Tools, p: Params) -> Program:
    """784-512-512-10, cross entropy, Adam."""
    m = tools.m
    model = _fill(m, perceptron(m.nn, (784, 512, 512, 10), m.nn.ReLU))
    batch = _normal(m, p["batch"], 784), _classes(m, 10, p["batch"])
    loss = lambda model, x, y: m.nn.functional.cross_entropy(model(x), y)  # noqa: E731
    return _step(tools, model, m.optim.Adam(model.parameters()), loss, batch)


def small_mlp(tools: Tools, p: Params) -> Program:
    """16-32-32-1 with tanh, squared error, SGD with momentum."""
    m = tools.m
    model = _fill(m, perceptron(m.nn, (16, 32, 32, 1), m.nn.Tanh))
    batch = _normal(m, p["batch"], 16), _normal(m, p["batch"], 1)
    loss = lambda model, x, y: m.nn.functional.mse_loss(model(x), y)  # noqa: E731
    return _step(tools, model, m.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), loss, batch)


def resnet(tools: Tools, p: Params) -> Program:
    """ResNet-20 of 16, 32 and 64 channels on 32 x 32 pictures, SGD with momentum."""
    m = tools.m
    model = _fill(m, resnet20(m.nn, m.nn.functional))
    batch = _normal(m, p["batch"], 3, 32, 32), _classes(m, 10, p["batch"])
    loss = lambda model, x, y: m.nn.functional.cross_entropy(model(x), y)  # noqa: E731
    return _step(tools, model, m.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), loss, batch)


def _tokens(p: Params) -> tuple[Any, Any]:
    tokens = np.random.default_rng(3).integers(0, 65, (p["batch"], p["length"] + 1))
    return tokens[:, :-1].copy(), tokens[:, 1:].copy()


def _next_token(m: Any) -> Callable[[Any, Any, Any], Any]:
    return lambda model, x, y: m.nn.functional.cross_entropy(model(x).reshape(-1, 65), y.reshape(-1))


def gpt(tools: Tools, p: Params) -> Program:
    """Four layers, width 128, four heads, AdamW."""
    m = tools.m
    model = _fill(m, GPT.of(m)(65, p["length"], 128, 4, 4))
    batch = tuple(map(m.from_numpy, _tokens(p)))
    return _step(tools, model, m.optim.AdamW(model.parameters(), lr=1e-3), _next_token(m), batch)


def lstm(tools: Tools, p: Params) -> Program:
    """Embedding 64, LSTM 256, Adam."""
    m = tools.m
    model = _fill(m, CharacterLSTM.of(m)(65, 64, 256))
    batch = tuple(map(m.from_numpy, _tokens(p)))
    return _step(tools, model, m.optim.Adam(model.parameters(), lr=1e-3), _next_token(m), batch)


def _batches(table: int, *others: int, **more: int) -> dict[str, Params]:
    return {"table" if n == table else f"batch {n}": {"batch": n, **more} for n in (table, *others)}


def _resnet_flops(p: Params) -> float:
    stages = ((16, 32, 16), (32, 16, 32), (64, 8, 64))
    products = 32 * 32 * 3 * 16 * 9
    for i, (width, side, _) in enumerate(stages):
        products += 6 * side * side * width * width * 9 - (side * side * width * (width // 2) * 8 if i else 0)
    return 3 * 2.0 * p["batch"] * products


def _gpt_flops(p: Params) -> float:
    tokens = p["batch"] * p["length"]
    return 3 * 2.0 * tokens * (4 * (12 * 128 * 128 + 2 * p["length"] * 128) + 65 * 128)


ROWS = (
    Row("mlp", "MLP 784-512-512-10, batch 128, Adam: step", 0.8, _batches(128, 7, 1024), mlp, jax_training.mlp,
        flops=lambda p: 6.0 * p["batch"] * (784 * 512 + 512 * 512 + 5120), traffic=lambda p: 7 * 4.0 * 669_706),
    Row("small_mlp", "MLP 16-32-32-1 tanh, batch 32, SGD: step", 1.0, _batches(32, 5, 256), small_mlp,
        jax_training.small_mlp, flops=lambda p: 6.0 * p["batch"] * 1568),
    Row("resnet", "ResNet-20, 64x3x32x32, SGD: step", 0.75, _batches(64, 16, 128), resnet, jax_training.resnet,
        flops=_resnet_flops),
    Row("gpt", "GPT 4 layers, width 128, 16 x 128, AdamW: step", 0.8, _batches(16, 3, length=128)
        | {"length 512": {"batch": 4, "length": 512}}, gpt, jax_training.gpt, flops=_gpt_flops),
    Row("lstm", "LSTM 64-256, 32 x 64 steps, Adam: step", 0.85, _batches(32, 8, length=64)
        | {"length 200": {"batch": 32, "length": 200}}, lstm, jax_training.lstm,
        flops=lambda p: 6.0 * p["batch"] * p["length"] * (4 * 256 * (64 + 256) + 65 * 256)),
)  # fmt: skip
