"""Layers and losses to test: how each is made, and the shapes of its inputs. `L` is the library."""

import numpy as np


def array(shape, seed=0, dtype="f8"):
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


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
