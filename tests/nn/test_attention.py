"""Attention where there is nothing to attend to."""

import pytest

import jitgrad as jg


@pytest.mark.parametrize("shape", [(0, 5, 8), (3, 0, 8), (0, 0, 8)])
def test_an_empty_batch_and_no_positions(shape):
    attention = jg.nn.MultiheadAttention(8, 2, batch_first=True)
    encoder = jg.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    x = jg.zeros(*shape, requires_grad=True)
    out, weights = attention(x, x, x)
    assert out.shape == shape and weights.shape == (shape[0], shape[1], shape[1])
    for f in (encoder, jg.compile(encoder)):
        f(x).sum().backward()
        assert x.grad.shape == shape
