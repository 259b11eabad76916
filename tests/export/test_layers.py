"""Layers and whole networks with dynamic sizes: equal to eager at the least lengths and at others."""

import warnings

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn, pytree
from jitgrad.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)


class Block(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        out = channels * stride
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.short = nn.Conv2d(channels, out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 4, 7, 2, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(4, 1), Block(4, 2),
        Block(8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    ).eval()  # fmt: skip


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()


def causal(q):
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def resized(x):
    return F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] + 1), mode="bilinear")


N, NT, NHW = {0: "n"}, {0: "n", 1: "t"}, {0: "n", 2: "h", 3: "w"}
LAYERS = {
    "LSTM": (lambda: nn.LSTM(3, 4, 2, batch_first=True), (2, 5, 3), NT, [(1, 5, 3), (7, 1, 3), (2, 9, 3)]),
    "LSTM, time first": (lambda: nn.LSTM(3, 4), (5, 2, 3), {1: "n"}, [(5, 1, 3), (5, 6, 3)]),
    "GRU": (lambda: nn.GRU(3, 4, bidirectional=True, batch_first=True), (2, 5, 3), NT, [(1, 1, 3), (7, 8, 3)]),
    "attention": (SelfAttention, (2, 5, 8), NT, [(1, 1, 8), (3, 9, 8)]),
    "causal attention": (lambda: causal, (2, 2, 5, 4), {0: "n", 2: "t"}, [(1, 2, 1, 4), (3, 2, 8, 4)]),
    "transformer encoder": (encoder, (2, 5, 8), NT, [(1, 1, 8), (3, 9, 8)]),
    "ResNet": (resnet, (2, 3, 64, 64), NHW, [(1, 3, 64, 64), (2, 3, 33, 97), (1, 3, 9, 5)]),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 6), {0: "n", 2: "t"}, [(1, 4, 1), (3, 4, 9)]),
    "resized": (lambda: resized, (2, 3, 8, 9), NHW, [(1, 3, 4, 10), (1, 3, 14, 3)]),
    "upsampled": (lambda: nn.Upsample(scale_factor=2), (2, 3, 8, 8), NHW, [(1, 3, 1, 3)]),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), (2, 4, 6, 5), NHW, [(1, 4, 2, 3)]),
    "patches": (lambda: lambda x: F.unfold(x, 3, padding=1), (2, 4, 6, 5), NHW, [(1, 4, 3, 3), (2, 4, 7, 9)]),
    "pooling with a rest": (lambda: nn.AvgPool1d(3, 2, ceil_mode=True), (2, 4, 9), {0: "n", 2: "t"},
                            [(1, 4, 4), (1, 4, 8), (1, 4, 11)]),
    "transposed convolution": (lambda: nn.ConvTranspose2d(3, 2, 3, 2, 1), (2, 3, 6, 5), NHW, [(1, 3, 1, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_equals_eager(name, tmp_path):
    make, shape, axes, others = LAYERS[name]
    jg.manual_seed(0)
    f = make()
    argument = next(iter(jg.export(f, (jg.randn(*shape),)).signature.arguments)).name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = jg.export(f, (jg.randn(*shape),), dynamic={argument: axes})
    program.save(tmp_path / "p.jg")
    program = jg.load_program(tmp_path / "p.jg")
    for other in others:
        x = jg.randn(*other)
        want, got = (pytree.flatten(g(x))[0] for g in (f, program))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), 1e-4, 1e-5)
