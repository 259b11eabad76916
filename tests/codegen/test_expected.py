"""Tile kernels are begun before a graph is prepared: those that it asks for then, once in a process."""

import pytest

from jitgrad.codegen import expected
from jitgrad.codegen.cpu.kernels import tile_target
from jitgrad.codegen.cpu.threads import pool
from jitgrad.codegen.expected import Expected
from jitgrad.codegen.options import DEFAULT
from jitgrad.codegen.prepare import prepare
from jitgrad.codegen.tile_launches import tile_kernels
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.ops.conv import Conv
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.math import Tanh
from jitgrad.ir.types import TensorType


def layers():
    """Two convolutions and a product."""
    b = Builder()
    x, v, w = (b.input(TensorType(s, dtypes.float32)) for s in ((2, 32, 8, 8), (32, 32, 3, 3), (8, 8)))
    conv = Conv((1, 1), (1, 1), (1, 1), 1)
    return b.build([b(MatMul(), w, b(Tanh(), w)), b(conv, b(Tanh(), b(conv, x, v)), v)])


@pytest.fixture
def begun(monkeypatch):
    """The kernels that are begun."""
    found = []
    monkeypatch.setattr(pool, "_threads", 2)
    monkeypatch.setattr(expected, "begin_kernels", lambda kernels, numerics: found.extend(kernels))
    return found


def test_what_is_begun_is_what_the_graph_needs(begun):
    graph, tiles, started = layers(), tile_target(), Expected()
    started.begin_all(graph, DEFAULT)
    assert set(begun) == set(tile_kernels(prepare(graph, DEFAULT, tiles=tiles), tiles)) and len(begun) == 3
    started.begin_all(graph, DEFAULT)
    assert len(begun) == 3


def test_one_thread_begins_nothing(begun, monkeypatch):
    monkeypatch.setattr(pool, "_threads", 1)
    Expected().begin_all(layers(), DEFAULT)
    assert not begun
