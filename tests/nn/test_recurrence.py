"""Recurrent layers as one scan: PyTorch's values and gradients, eager and compiled, for all lengths the same code."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiler import assert_no_compile

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LAYERS = {
    "RNN": ("RNN", {}),
    "RNN, relu, no bias": ("RNN", {"nonlinearity": "relu", "bias": False}),
    "LSTM, two layers, both ways": ("LSTM", {"num_layers": 2, "bidirectional": True}),
    "LSTM, batch first": ("LSTM", {"batch_first": True}),
    "LSTM, projected": ("LSTM", {"proj_size": 3}),
    "GRU": ("GRU", {}),
    "GRU, both ways": ("GRU", {"bidirectional": True}),
}


def pair(name, inputs=6, width=5):
    kind, options = LAYERS[name]
    theirs = getattr(torch.nn, kind)(inputs, width, **options)
    ours = getattr(jg.nn, kind)(inputs, width, **options)
    ours.load_state_dict({k: jg.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return theirs, ours


def outcome(layer, call, x):
    """Results and gradients, as NumPy arrays."""
    layer.zero_grad()
    output, state = call(x)
    states = state if isinstance(state, tuple) else (state,)
    ((output * output).sum() + sum((s**3).sum() for s in states)).backward()
    return [t.detach().numpy() for t in (output, *states, x.grad, *(p.grad for p in layer.parameters()))]


@pytest.mark.filterwarnings("ignore:.*projections is not supported")
@pytest.mark.parametrize("batch", [4, 80])  # little: by NumPy; more: by kernels when it comes again
@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients(name, batch):
    theirs, ours = pair(name)
    compiled = jg.compile(lambda x: ours(x), fullgraph=True)
    rng = np.random.default_rng(0)
    for length in (7, 7, 7, 9):
        x = rng.normal(size=(length, batch, 6)).astype(np.float32)
        want = outcome(theirs, theirs, torch.tensor(x, requires_grad=True))
        for call in (ours, compiled):
            for a, b in zip(outcome(ours, call, jg.tensor(x, requires_grad=True)), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * (1 + np.abs(b).max()))


def test_packed_sequences():
    theirs, ours = pair("LSTM, two layers, both ways")
    x, lengths = np.random.default_rng(0).normal(size=(9, 5, 6)).astype(np.float32), [9, 9, 4, 4, 2]
    packed = [
        lib.nn.utils.rnn.pack_padded_sequence(lib.tensor(x, requires_grad=True), lib.tensor(lengths))
        for lib in (torch, jg)
    ]
    for a, b in zip(ours(packed[1])[1], theirs(packed[0])[1], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_second_derivatives():
    theirs, ours = pair("GRU")
    x = np.random.default_rng(0).normal(size=(4, 2, 6)).astype(np.float32)
    found = []
    for lib, layer in ((torch, theirs), (jg, ours)):
        t = lib.tensor(x, requires_grad=True)
        (g,) = lib.autograd.grad((layer(t)[0] ** 2).sum(), t, create_graph=True)
        (g**2).sum().backward()
        found.append([t.grad, *(p.grad for p in layer.parameters())])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-5)


def test_a_training_step_compiles_once_for_all_lengths():
    _, ours = pair("LSTM, batch first")
    optimizer = jg.optim.Adam(ours.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = (ours(x)[0] ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = jg.compile(step, fullgraph=True)
    losses = [compiled(jg.ones(8, 5, 6)).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    with assert_no_compile():
        compiled(jg.ones(8, 12, 6))
    first, second = (e.executable.plan for e in compiled.explain().entries[-2:])
    assert len(first.steps) == len(second.steps)


def test_steps_leave_no_python_behind():
    _, ours = pair("LSTM, batch first")
    compiled = jg.compile(lambda x: ours(x)[0], fullgraph=True)
    compiled(jg.ones(2, 50, 6))
    (entry,) = compiled.explain().entries
    assert [n.op.name for n in entry.graph.nodes].count("scan") == 1
    assert entry.executable.stats.host_steps == 0
