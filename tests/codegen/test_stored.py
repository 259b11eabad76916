"""Compiled graphs on disk: what another process finds, computes the same; what doesn't fit is compiled anew."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from jitgrad.codegen import compile as compilation
from jitgrad.codegen import stored
from jitgrad.codegen.cache import COUNTERS, disk_cache
from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.resize import Table
from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.config import config
from jitgrad.ir.op import Pointwise, op
from jitgrad.ir.ops import REGISTRY
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.types import TensorType

F32 = dtypes.float32


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of its own for the test, in which graphs are kept; no other sizes are known."""
    monkeypatch.setattr(compilation, "TEMPLATES", Table())
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(config, "cache_graphs", True)
    return tmp_path / "cache"


def layer(n=3):
    """`x @ w + x * 2`, with a size that a test can choose."""
    b = Builder()
    x, w = b.input(TensorType((4, n), F32)), b.input(TensorType((n, n), F32))
    return b.build([b(Add(), b(MatMul(), x, w), b(Add(), x, x))])


def arrays(n=3):
    rng = np.random.default_rng(n)
    return [rng.standard_normal((4, n), np.float32), rng.standard_normal((n, n), np.float32)]


def entries(folder):
    return sorted(folder.glob("graph-*"))


def test_a_graph_met_again_is_bound_and_not_compiled(folder, monkeypatch):
    graph, x = layer(5), arrays(5)
    expected = compile_graph(graph)(x)[0]
    assert len(entries(folder)) == 1
    monkeypatch.setattr(stored, "_FAULTS", ())  # a fault would be hidden otherwise
    before = COUNTERS.compiled
    again = compile_graph(layer(5))
    assert again._running is None and COUNTERS.compiled == before
    np.testing.assert_array_equal(again(x)[0], expected)
    assert again.stats.compiled == 0 and again.stats.reused == again.stats.kernels == 2
    assert [type(s).__name__ for s in again.plan.steps] == ["TileStep", "KernelStep"]  # compiled when asked for
    assert "tile_product" in again.dump()["graph"]


PROGRAM = """
import sys, json, numpy as np, jitgrad as jg
jg.manual_seed(0)
nn = jg.nn
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))
optimizer = jg.optim.AdamW(model.parameters(), lr=0.01)
decay = jg.tensor(0.5)

@jg.compile
def step(x, y):
    optimizer.zero_grad()
    smooth = jg.scan(lambda c, e: (c * decay + e, c), jg.zeros(8, 8), x[:, 0])[1]
    loss = jg.nn.functional.cross_entropy(model(x), y) + smooth.sum() * 1e-3
    loss.backward()
    optimizer.step()
    return loss.detach()

rng = np.random.default_rng(0)
x, y = jg.from_numpy(rng.standard_normal((6, 3, 8, 8), np.float32)), jg.from_numpy(rng.integers(0, 5, 6))
losses = [step(x, y).item().hex() for _ in range(4)]
try:
    step(x, y + 5)
    refused = ""
except Exception as error:
    refused = type(error).__name__
print(json.dumps([losses, refused, jg.counters.counters.kernels]))
"""


def run(folder, **environment):
    """What the program prints in a process of its own."""
    env = {**os.environ, "JITGRAD_CACHE_DIR": str(folder), "JITGRAD_CACHE_GRAPHS": "1", **environment}
    return json.loads(subprocess.check_output([sys.executable, "-W", "ignore", "-c", PROGRAM], env=env, text=True))


def test_a_training_step_in_another_process_gives_the_same_bits(tmp_path):
    losses, refused, compiled = run(tmp_path)
    assert entries(tmp_path) and compiled > 0 and refused == "DimError"
    assert run(tmp_path) == [losses, refused, 0]
    assert run(tmp_path, JITGRAD_CACHE_GRAPHS="0") == [losses, refused, 0]


@pytest.mark.parametrize("damage", ["truncate", "flip", "kernel gone", "other content"])
def test_what_does_not_fit_is_compiled_anew(folder, damage):
    graph, x = layer(7), arrays(7)
    expected = compile_graph(graph)(x)[0]
    (path,) = entries(folder)
    content = path.read_bytes()
    match damage:
        case "truncate":
            path.write_bytes(content[:-5])
        case "flip":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "kernel gone":
            header = disk_cache().read(path.stem)
            disk_cache().write(path.stem, header.replace(b'"module-', b'"nodule-'))
        case "other content":
            disk_cache().write(path.stem, (2).to_bytes(8, "little") + b"{}")
    again = compile_graph(layer(7))
    assert again._running is not None
    np.testing.assert_array_equal(again(x)[0], expected)
    assert path.read_bytes() == content  # written again


def test_the_key_is_the_graph_its_options_and_what_it_writes_over(folder):
    from jitgrad.codegen.options import CompileOptions

    plain = CompileOptions()
    keys = [
        stored.key_of(layer(3), {}, plain),
        stored.key_of(layer(4), {}, plain),
        stored.key_of(layer(3), {0: 0}, plain),
        stored.key_of(layer(3), {}, CompileOptions(numerics="strict")),
    ]
    assert len(set(keys)) == 4 and None not in keys
    assert stored.key_of(layer(3), {}, plain) == keys[0]


def test_graphs_of_other_peoples_ops_are_not_kept(folder):
    @op
    class Twice(Pointwise):
        """Twice."""

        name = "twice_of_a_test"
        accepts = ("float",)
        fast = False
        ufunc = staticmethod(lambda x: x + x)

        def scalar(self, *xs):
            """The sum."""
            return xs[0] + xs[0]

    try:
        b = Builder()
        x = b.input(TensorType((3,), F32))
        graph = b.build([b(Mul(), b(Twice(), x), x)])
        assert compile_graph(graph)([np.ones(3, "f")])[0].tolist() == [2, 2, 2]
        assert entries(folder) == []
    finally:
        REGISTRY.pop("twice_of_a_test", None)


def test_nothing_is_kept_where_the_switch_or_the_folder_says_so(folder, monkeypatch):
    monkeypatch.setattr(config, "cache_graphs", False)
    compile_graph(layer(9))
    assert entries(folder) == []
    monkeypatch.setattr(config, "cache_graphs", True)
    monkeypatch.setattr(config, "cache_dir", None)
    compile_graph(layer(10))
    assert entries(folder) == []
