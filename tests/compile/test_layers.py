"""Every layer and loss: compiled equals eager, forward and backward, on the first call and later ones."""

import copy

import numpy as np
import pytest
from nn_layers import LAYERS, LOSSES, array, build, example

import jitgrad as jg


def run(module, inputs):
    """A function of the inputs that gives the output and all gradients, and what it is made of."""

    def step(*xs):
        y = module(*xs)
        y.sin().sum().backward()
        grads = [x.grad for x in xs if x.requires_grad] + [p.grad for p in module.parameters()]
        for t in (*xs, *module.parameters()):
            t.grad = None
        return y, [g for g in grads if g is not None]

    return step


def check(eager, compiled, inputs, rtol=2e-4):
    """Two modules of equal weights, one of them in a compiled function."""
    f, g = run(eager, inputs), jg.compile(run(compiled, inputs), fullgraph=True)
    for call in range(3):
        outcomes = []
        for function in (f, g):
            jg.manual_seed(call)
            xs = [jg.tensor(x * (1 + 0.1 * call) if x.dtype.kind == "f" else x) for x in inputs]
            y, grads = function(*[x.requires_grad_() if x.dtype.is_floating_point else x for x in xs])
            outcomes.append([t.detach().numpy() for t in (y, *grads)])
        for a, b in zip(*outcomes, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            scale = np.abs(a).max(initial=1e-3)
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol * scale)
    for a, b in zip(eager.buffers(), compiled.buffers(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=rtol, atol=rtol)
    assert len(g.explain().specialisations) == 1


@pytest.mark.parametrize("text", LAYERS)
def test_layer(text):
    jg.manual_seed(0)
    module = build(jg, text).float()
    inputs = [array(shape, seed, "f4") for seed, shape in enumerate(LAYERS[text])]
    check(module, copy.deepcopy(module), inputs)


@pytest.mark.parametrize("text", LAYERS)
def test_layer_in_evaluation(text):
    jg.manual_seed(0)
    module = build(jg, text).float().eval()
    inputs = [array(shape, seed, "f4") for seed, shape in enumerate(LAYERS[text])]
    check(module, copy.deepcopy(module), inputs)


@pytest.mark.parametrize("text", LOSSES)
def test_loss(text):
    module = build(jg, text).float()
    x, y = example(LOSSES[text])
    inputs = [x.astype("f4"), y.astype("f4") if y.dtype.kind == "f" else y]
    if LOSSES[text] == "chances":  # scaled by the test, they must stay probabilities
        inputs = [a * 0.8 for a in inputs]
    check(module, copy.deepcopy(module), inputs)


@pytest.mark.parametrize("text", ["Dropout(0.3)", "Dropout2d(0.5)"])
def test_dropout(text):
    module = build(jg, text)
    check(module, copy.deepcopy(module), [array((2, 3, 4, 5), dtype="f4")])


def test_embedding():
    module = jg.nn.Embedding(7, 3, padding_idx=1)
    check(module, copy.deepcopy(module), [np.array([[1, 5, 0], [6, 1, 1]])])


@pytest.mark.parametrize("n", [64, 65, 200])
def test_as_many_tensors_as_one_likes_are_stacked(n):
    rows = [jg.arange(2000.0) + i for i in range(n)]
    expected = np.stack([np.arange(2000, dtype=np.float32) + i for i in range(n)])
    stacked = jg.compile(lambda *rows: jg.stack(rows) * 2)
    for _ in range(3):
        np.testing.assert_array_equal(stacked(*rows).numpy(), expected * 2)
        np.testing.assert_array_equal(jg.stack(rows).numpy(), expected)  # eagerly, on kernels from the second time on
