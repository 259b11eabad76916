"""Training steps at many batch sizes: as eager ones, and from the third size on without a new plan."""

import numpy as np
import pytest
import random_sizes
from codegen.resized_plans import verifying

import jitgrad as jg
from jitgrad import nn
from jitgrad.codegen import compile as codegen
from jitgrad.codegen.resize import Table

SIZES = (20, 17, 12, 33, 64, 20, 1, 48)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.qkv, self.head = nn.Embedding(11, 16), nn.Linear(16, 48), nn.Linear(16, 5)

    def forward(self, x):
        b, t = x.shape
        q, k, v = self.qkv(self.tokens(x)).reshape(b, t, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(y.transpose(1, 2).reshape(b, t, 16).mean(1))


def pictures():
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    return net, lambda n: np.random.default_rng(n).standard_normal((n, 3, 9, 9)).astype("f4")


def words():
    return Attention(), lambda n: np.random.default_rng(n).integers(0, 11, (n, 7))


def train(make, compiled):
    jg.manual_seed(0)
    model, inputs = make()
    optimizer = jg.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = jg.compile(step) if compiled else step
    losses = []
    for n in SIZES:
        y = np.random.default_rng(n + 1).integers(0, 5, n)
        losses.append(run(jg.from_numpy(inputs(n)), jg.from_numpy(y)).item())
    return losses


@pytest.mark.parametrize("make", [pictures, words])
def test_training_at_many_sizes(make, monkeypatch):
    table = Table()
    monkeypatch.setattr(codegen, "TEMPLATES", table)
    monkeypatch.setattr(codegen.stored, "key_of", lambda *args: None)
    np.testing.assert_allclose(train(make, True), train(make, False), rtol=2e-4)
    assert not any(known.failures for known in table._known.values())
    assert any(known.templates for known in table._known.values())


@pytest.mark.parametrize("first", [0, 197, 900])
def test_random_programs_at_many_sizes(first, monkeypatch):
    """More of them: `python tests/random_sizes.py 1000`. Plans for other sizes are verified."""
    monkeypatch.setattr(codegen, "TEMPLATES", Table())
    monkeypatch.setattr(codegen.stored, "key_of", lambda *args: None)
    verified = verifying(monkeypatch)
    for seed in range(first, first + 4):
        random_sizes.check(seed)
    assert verified
