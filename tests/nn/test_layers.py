"""Layers against PyTorch's: outputs, gradients, buffers, representation, names in the state dict, errors."""

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")
from nn_layers import LAYERS, LOSSES, build, example  # noqa: E402
from nn_pair import array, check, copy_weights  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:Using padding=.same.")]


@pytest.mark.parametrize("text", LAYERS, ids=str)
def test_layer(text):
    mine, theirs = build(jg, text).double(), build(torch, text).double()
    assert repr(mine) == repr(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    copy_weights(mine, theirs)
    inputs = [array(shape, seed) for seed, shape in enumerate(LAYERS[text])]
    tolerance = 1e-7 if text == "Hardsigmoid()" else 1e-9  # PyTorch has 1/6 in float32
    for _ in range(2):
        check(mine, theirs, *inputs, atol=tolerance)
        mine.zero_grad()
        theirs.zero_grad()
    check(mine.eval(), theirs.eval(), *inputs, atol=tolerance)


@pytest.mark.parametrize("text", LOSSES, ids=str)
def test_loss(text):
    mine, theirs = build(jg, text), build(torch, text)
    assert repr(mine) == repr(theirs)
    check(mine, theirs, *example(LOSSES[text]))


def test_embedding():
    mine, theirs = jg.nn.Embedding(7, 3, padding_idx=-2).double(), torch.nn.Embedding(7, 3, padding_idx=-2).double()
    assert repr(mine) == repr(theirs)
    assert not mine.weight[5].any()
    copy_weights(mine, theirs)
    check(mine, theirs, np.array([[1, 5, 0], [6, 1, 1]]))
    with pytest.raises(IndexError):
        mine(jg.tensor([7]))


def test_half_types_stay_what_they_are():
    for dtype in (jg.float16, jg.bfloat16):
        model = jg.nn.Sequential(
            jg.nn.Conv2d(1, 2, 3), jg.nn.BatchNorm2d(2), jg.nn.ReLU(), jg.nn.Flatten(), jg.nn.Linear(8, 3)
        ).to(dtype)  # fmt: skip
        loss = jg.nn.functional.cross_entropy(model(jg.randn(3, 1, 4, 4, dtype=dtype)), jg.tensor([0, 1, 2]))
        loss.backward()
        assert loss.dtype is dtype
        assert all(p.grad.dtype is dtype for p in model.parameters())


def test_dropout_drops_and_scales():
    jg.manual_seed(0)
    x = jg.ones(200, 100, requires_grad=True)
    y = jg.nn.Dropout(0.3)(x)
    y.sum().backward()
    kept = (y != 0).float().mean().item()
    assert abs(kept - 0.7) < 0.02
    np.testing.assert_allclose(np.unique(y.detach().numpy()), [0, 1 / 0.7], rtol=1e-6)
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    channels = jg.nn.Dropout2d(0.5)(jg.ones(8, 50, 2, 2)).numpy()
    assert ((channels == 0).all((2, 3)) | (channels == 2).all((2, 3))).all()
    assert not jg.nn.Dropout(1.0)(x).any()
    assert jg.nn.Dropout(0.3).eval()(x) is x


BOTH_REFUSE = {
    "Linear(5, 3)": [(4, 4)],
    "Conv2d(3, 4, 3)": [(2, 4, 6, 5)],
    "Conv2d(3, 4, (3, 3))": [(2, 6)],
    "Conv2d(3, 4, 9)": [(1, 3, 4, 4)],
    "BatchNorm2d(3)": [(2, 3, 4)],
    "BatchNorm1d(3)": [(1, 3)],
    "LayerNorm(5)": [(2, 4)],
    "MaxPool2d(3, padding=2)": [(1, 1, 4, 4)],
    "Conv2d(3, 4, 3, groups=2)": [],
    "Conv2d(3, 4, 3, padding='full')": [],
    "Dropout(1.5)": [],
    "Softmax(dim=2)": [(3, 4)],
    "CrossEntropyLoss()": [(3, 4), (4,)],
}


@pytest.mark.parametrize("text", BOTH_REFUSE, ids=str)
def test_errors_are_pytorchs(text):
    def attempt(lib):
        module = build(lib, text)
        inputs = [lib.zeros(*s) for s in BOTH_REFUSE[text]]
        module(*[x.long() if len(s) == 1 else x for x, s in zip(inputs, BOTH_REFUSE[text], strict=True)])

    with pytest.raises(Exception) as theirs:
        attempt(torch)
    with pytest.raises(type(theirs.value)) as mine:
        attempt(jg)
    assert "test_layers.py" in str(mine.value) or "<string>" in str(mine.value)
