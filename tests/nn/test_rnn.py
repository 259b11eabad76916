"""Recurrent layers where PyTorch's module table does not look: empty sequences and batches, strided and NaN inputs."""

import numpy as np
import pytest

import jitgrad as jg


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_sequences_of_no_step_are_refused(kind):
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        getattr(jg.nn, kind)(3, 4)(jg.zeros(0, 2, 3))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_batches_of_nothing(kind):
    output, _ = getattr(jg.nn, kind)(3, 4)(jg.zeros(5, 0, 3))
    assert output.shape == (5, 0, 4)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_strided_inputs_and_nan_in_one_sequence(kind):
    layer = getattr(jg.nn, kind)(3, 4, bidirectional=True)
    x = jg.randn(3, 2, 5).permute(2, 1, 0)
    want = layer(x.contiguous())[0]
    np.testing.assert_array_equal(layer(x)[0].detach().numpy(), want.detach().numpy())
    spoilt = x.clone()
    spoilt[2, 1] = float("nan")
    got = layer(spoilt)[0]
    assert (got[:, 0] == want[:, 0]).all() and got[2, 1].isnan().all()
