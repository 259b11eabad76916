"""Small tensors, eagerly: what Python costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Params, Program, Row, Tools


def _chain(a: Any, b: Any) -> Any:
    for _ in range(10):
        a = (a * b + b).relu()
    return a


def forward(tools: Tools, p: Params) -> Program:
    """Ten times (mul, add, relu)."""
    a, b = (tools.m.from_numpy(np.linspace(low, 1, p["n"], dtype="f4")) for low in (0.1, 0.5))
    return lambda: _chain(a, b)


def backward(tools: Tools, p: Params) -> Program:
    """The same, summed and differentiated."""
    a, b = (tools.m.from_numpy(np.linspace(low, 1, p["n"], dtype="f4")) for low in (0.1, 0.5))
    a.requires_grad_()

    def run() -> None:
        a.grad = None
        _chain(a, b).sum().backward()

    return run


_SIZES = {"table": {"n": 10}, "1000": {"n": 1000}}
ROWS = (
    Row("eager", "10 x (mul, add, relu) on 10 elements, eager", 0.6, _SIZES, forward, eager=True),
    Row("eager_backward", "the same with sum().backward(), eager", 0.6, _SIZES, backward, eager=True),
)
