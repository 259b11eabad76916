"""Layers against PyTorch's: outputs, gradients, buffers, representation, names in the state dict, errors."""

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")
from nn_pair import array, check, copy_weights  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:Using padding=.same.")]

LAYERS = {
    "Linear(5, 3)": [(4, 5)],
    "Linear(5, 3, bias=False)": [(2, 4, 5)],
    "Linear(3, 2, dtype=L.float64)": [(3,)],
    "Bilinear(3, 4, 2)": [(5, 3), (5, 4)],
    "Identity(3, a=1)": [(2, 3)],
    "Conv1d(4, 6, 3, padding=1)": [(2, 4, 7)],
    "Conv2d(3, 4, 3)": [(2, 3, 6, 5)],
    "Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)": [(2, 4, 7, 8)],
    "Conv2d(3, 4, 3, padding='same', bias=False)": [(3, 6, 5)],
    "Conv2d(3, 4, (2, 3), padding='same')": [(2, 3, 6, 5)],
    "Conv2d(3, 4, 3, padding='valid')": [(2, 3, 6, 5)],
    "Conv3d(2, 3, 2)": [(1, 2, 3, 4, 3)],
    "ConvTranspose1d(4, 2, 3, stride=2)": [(2, 4, 5)],
    "ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2)": [(2, 4, 5, 4)],
    "ConvTranspose3d(2, 3, 2, bias=False)": [(2, 2, 2, 3, 2)],
    "BatchNorm1d(3)": [(5, 3)],
    "BatchNorm1d(3, affine=False)": [(5, 3, 4)],
    "BatchNorm2d(3, momentum=None)": [(2, 3, 4, 5)],
    "BatchNorm2d(3, track_running_stats=False)": [(2, 3, 4, 5)],
    "BatchNorm2d(3, eps=1e-3, momentum=0.3)": [(2, 3, 4, 5)],
    "BatchNorm3d(2)": [(2, 2, 3, 2, 2)],
    "LayerNorm(4)": [(2, 3, 4)],
    "LayerNorm((3, 4), bias=False)": [(2, 3, 4)],
    "LayerNorm([4], elementwise_affine=False)": [(2, 3, 4)],
    "RMSNorm(4)": [(2, 4)],
    "ReLU()": [(3, 4)],
    "ReLU6()": [(3, 4)],
    "LeakyReLU(0.2)": [(3, 4)],
    "ELU(0.7)": [(3, 4)],
    "GELU()": [(3, 4)],
    "GELU(approximate='tanh')": [(3, 4)],
    "SiLU()": [(3, 4)],
    "Mish()": [(3, 4)],
    "Hardtanh(-0.5, 0.7)": [(3, 4)],
    "Hardsigmoid()": [(3, 4)],
    "Hardswish()": [(3, 4)],
    "Softplus(2, 1)": [(3, 4)],
    "Tanh()": [(3, 4)],
    "Sigmoid()": [(3, 4)],
    "LogSigmoid()": [(3, 4)],
    "Softmax(dim=1)": [(3, 4)],
    "Softmin(dim=0)": [(3, 4)],
    "LogSoftmax(dim=-1)": [(2, 3, 4)],
    "MaxPool1d(2)": [(2, 3, 7)],
    "MaxPool2d(3, stride=2, padding=1)": [(2, 3, 7, 8)],
    "MaxPool2d((2, 3), dilation=2, ceil_mode=True)": [(3, 8, 9)],
    "MaxPool3d(2)": [(1, 2, 4, 4, 4)],
    "AvgPool1d(3, stride=2, padding=1)": [(2, 3, 7)],
    "AvgPool2d(2)": [(2, 3, 6, 6)],
    "AvgPool2d(3, 2, padding=1, count_include_pad=False, ceil_mode=True)": [(2, 3, 6, 7)],
    "AvgPool2d(2, divisor_override=3)": [(2, 3, 6, 7)],
    "AvgPool3d(2)": [(1, 2, 4, 4, 4)],
    "AdaptiveAvgPool1d(3)": [(2, 3, 7)],
    "AdaptiveAvgPool2d(1)": [(2, 3, 4, 6)],
    "AdaptiveAvgPool2d((2, None))": [(2, 3, 4, 6)],
    "AdaptiveAvgPool2d((3, 4))": [(2, 3, 4, 6)],
    "Flatten()": [(2, 3, 4)],
    "Flatten(0, 1)": [(2, 3, 4)],
    "Unflatten(1, (2, 3))": [(2, 6, 4)],
    "Dropout(0.0)": [(2, 6)],
}


def build(lib, text):
    return eval(f"lib.nn.{text}", {"lib": lib, "L": lib})


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


LOSSES = {
    "MSELoss()": "regression",
    "MSELoss(reduction='sum')": "regression",
    "L1Loss(reduction='none')": "regression",
    "SmoothL1Loss(beta=0.5)": "regression",
    "HuberLoss(delta=0.5)": "regression",
    "CrossEntropyLoss()": "classes",
    "CrossEntropyLoss(weight=L.tensor([0.2, 1, 3, 0.5], dtype=L.float64), ignore_index=1)": "classes",
    "CrossEntropyLoss(label_smoothing=0.1, reduction='sum')": "classes",
    "CrossEntropyLoss(reduction='none')": "images",
    "CrossEntropyLoss(label_smoothing=0.1, weight=L.tensor([0.2, 1, 3, 0.5], dtype=L.float64))": "probabilities",
    "NLLLoss()": "classes",
    "NLLLoss(reduction='sum')": "images",
    "BCELoss(reduction='sum')": "chances",
    "BCEWithLogitsLoss(pos_weight=L.tensor([0.5, 1, 2, 3], dtype=L.float64))": "targets",
    "KLDivLoss(reduction='batchmean')": "probabilities",
    "KLDivLoss(reduction='sum', log_target=True)": "regression",
}


def example(kind):
    x = array((6, 4))
    rng = np.random.default_rng(3)
    soft = rng.random((6, 4))
    return {
        "regression": (x, array((6, 4), 1)),
        "classes": (x, np.array([0, 3, 1, 2, 2, 0])),
        "images": (array((2, 4, 3, 2)), rng.integers(0, 4, (2, 3, 2))),
        "probabilities": (x, soft / soft.sum(1, keepdims=True)),
        "chances": (1 / (1 + np.exp(-x)), soft),
        "targets": (x, soft),
    }[kind]


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
