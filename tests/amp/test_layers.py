"""Layers under autocast beside PyTorch's: types, values and gradients, eagerly and compiled."""

import numpy as np
import pytest

import jitgrad as jg

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

NETS = {
    "convolution": (lambda n: [n.Conv2d(3, 4, 3), n.BatchNorm2d(4), n.ReLU(), n.MaxPool2d(2), n.Flatten(),
                               n.Linear(36, 2)], (2, 3, 8, 8)),
    "transposed": (lambda n: [n.ConvTranspose2d(3, 4, 3), n.BatchNorm2d(4), n.LeakyReLU(0.2), n.Tanh()], (2, 3, 5, 5)),
    "layer norm": (lambda n: [n.Linear(8, 8), n.LayerNorm(8), n.GELU(), n.Linear(8, 3)], (4, 8)),
    "group norm": (lambda n: [n.Conv1d(4, 4, 3), n.GroupNorm(2, 4), n.SiLU()], (2, 4, 9)),
    "instance norm": (lambda n: [n.Conv2d(3, 4, 3), n.InstanceNorm2d(4, affine=True)], (2, 3, 8, 8)),
    "rms norm": (lambda n: [n.Linear(8, 8), n.RMSNorm(8)], (2, 8)),
    "transformer": (lambda n: [n.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)], (2, 5, 8)),
    "prelu": (lambda n: [n.Linear(8, 8), n.PReLU(), n.Softmax(-1)], (2, 8)),
    "resized": (lambda n: [n.Conv2d(3, 4, 3, padding=1), n.Upsample(scale_factor=2, mode="bilinear")], (2, 3, 4, 4)),
}  # fmt: skip


def outcome(lib, f, parameters, x, weight):
    with lib.autocast("cpu"):
        y = f(x)
    (y.float() * weight).sum().backward()
    grads = [p.grad.numpy().copy() for p in parameters]
    for p in parameters:
        p.grad = None
    return str(y.dtype).rpartition(".")[2], y.detach().float().numpy(), grads


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # PyTorch, of its speed
@pytest.mark.parametrize("name", NETS)
def test_layers(name):
    layers, shape = NETS[name]
    torch.manual_seed(0)
    theirs, ours = (lib.nn.Sequential(*layers(lib.nn)) for lib in (torch, jg))
    ours.load_state_dict({k: jg.from_numpy(np.array(v.numpy())) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with torch.autocast("cpu"), torch.no_grad():
        weight = np.random.default_rng(1).standard_normal(tuple(theirs(torch.tensor(x)).shape)).astype(np.float32)
    want = outcome(torch, theirs, list(theirs.parameters()), torch.tensor(x), torch.tensor(weight))
    compiled = jg.compile(lambda t: ours(t))
    for f in (ours, compiled, compiled):
        got = outcome(jg, f, list(ours.parameters()), jg.tensor(x), jg.tensor(weight))
        assert got[0] == want[0]
        # bfloat16 has 8 bits; where a gradient is a small difference of large numbers, it is compared with those.
        np.testing.assert_allclose(got[1], want[1], rtol=0.03, atol=0.03)
        for a, b in zip(got[2], want[2], strict=True):
            assert a.dtype == np.float32
            np.testing.assert_allclose(a, b, rtol=0.05, atol=0.05 * max(np.abs(b).max(), 2))
