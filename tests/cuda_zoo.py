"""Graphs of every kind, by family: what the CUDA backend is compiled and simulated on."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from ops.test_compiled import compilable, spread, together

import jitgrad as jg
from jitgrad import nn
from jitgrad.codegen import compile as compiling
from jitgrad.codegen.fuse import KernelStep, fuse
from jitgrad.codegen.loops.ir import Kernel
from jitgrad.codegen.lower import GPU_TUNING, lower
from jitgrad.codegen.options import DEFAULT
from jitgrad.codegen.prepare import prepare
from jitgrad.ir.autodiff import gradient_graph
from jitgrad.ir.graph import Graph

Family = Callable[[], list[Graph]]


@contextmanager
def captured_graphs() -> Iterator[list[Graph]]:
    """All graphs that are compiled inside."""
    found: list[Graph] = []
    original = compiling.compile_graph

    def see(graph: Graph, **rest):
        found.append(graph)
        return original(graph, **rest)

    compiling.compile_graph = see
    try:
        yield found
    finally:
        compiling.compile_graph = original


def step_graphs(module: nn.Module, loss: Callable, inputs: tuple, optimizer=jg.optim.AdamW) -> list[Graph]:
    """The graphs of a compiled training step."""
    update = optimizer(module.parameters(), lr=1e-3)

    @jg.compile
    def step(*xs):
        update.zero_grad()
        value = loss(module, *xs)
        value.backward()
        update.step()
        return value

    with captured_graphs() as found:
        for _ in range(3):
            step(*inputs)
    return found


def rand(*shape: int, dtype=np.float32) -> jg.Tensor:
    """Normal numbers."""
    return jg.tensor(np.random.default_rng(0).standard_normal(shape).astype(dtype))


def classes(n: int, count: int) -> jg.Tensor:
    """Class numbers."""
    return jg.tensor(np.random.default_rng(1).integers(0, count, n))


def mlp_step() -> list[Graph]:
    """A perceptron with dropout, and AdamW."""
    net = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 10))
    return step_graphs(net, lambda m, x, y: nn.functional.cross_entropy(m(x), y), (rand(16, 20), classes(16, 10)))


def cnn_step() -> list[Graph]:
    """Convolutions, batch norm, pooling, and SGD with momentum."""
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return step_graphs(
        net, lambda m, x, y: nn.functional.cross_entropy(m(x), y), (rand(4, 1, 12, 12), classes(4, 10)),
        lambda p, lr: jg.optim.SGD(p, lr=lr, momentum=0.9),
    )  # fmt: skip


class Block(nn.Module):
    """An embedding, and a block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(40, 16)
        self.before, self.after = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 40)

    def forward(self, t):
        x = self.tokens(t)
        q, k, v = self.qkv(self.before(x)).chunk(3, -1)
        scores = (q @ k.transpose(-1, -2)) / 4.0
        later = jg.ones_like(scores).triu(1) > 0
        x = x + scores.masked_fill(later, -float("inf")).softmax(-1) @ v
        return self.out(self.after(x))


def attention_step() -> list[Graph]:
    """Embedding, layer norm, attention, cross entropy."""
    tokens = jg.tensor(np.random.default_rng(2).integers(0, 40, (2, 12)))

    def loss(m, t):
        return nn.functional.cross_entropy(m(t).reshape(-1, 40), t.reshape(-1))

    return step_graphs(Block(), loss, (tokens,))


def recurrent_step() -> list[Graph]:
    """An LSTM's step."""
    net = nn.LSTM(6, 8, batch_first=True)
    return step_graphs(net, lambda m, x: m(x)[0].square().mean(), (rand(3, 5, 6),))


STEPS: dict[str, Family] = {  # each made once: a graph that was compiled before is not compiled again
    "perceptron step": functools.cache(mlp_step),
    "convolutional step": functools.cache(cnn_step),
    "attention step": functools.cache(attention_step),
    "recurrent step": functools.cache(recurrent_step),
}


def kernels_of(graph: Graph) -> list[Kernel]:
    """The kernels that a graph becomes for a GPU, each once."""
    program = fuse(prepare(graph, DEFAULT), DEFAULT)
    steps = [s for s in program.steps if isinstance(s, KernelStep)]
    return list(dict.fromkeys(x.kernel for s in steps for x in lower(program, s, {}, GPU_TUNING)))


def op_graphs(name: str, count: int) -> list[Graph]:
    """Samples of an op that kernels take, and their gradient where it has one: none where complex numbers take part."""
    samples = spread(compilable(name), count)
    graphs = [together(samples)[0]] if samples else []
    smooth = [s for s in compilable(name) if s.smooth and any(a.dtype == np.float64 for a in s.arrays)]
    if smooth:
        graph, _ = together(spread(smooth, count), differentiated=True)
        outputs = [i for i, v in enumerate(graph.outputs) if v.type.dtype.is_differentiable]
        wrt = [i for i, v in enumerate(graph.inputs) if v.type.dtype.is_differentiable]
        graphs.append(gradient_graph(graph, wrt, outputs))
    return graphs
