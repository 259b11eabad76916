"""Images: datasets, transforms for training, grids of many. Names and meanings are torchvision's."""

from . import datasets, transforms
from .datasets import MNIST, FashionMNIST, ImageFolder, read_idx
from .grid import make_grid, save_image
from .pictures import read_picture, to_picture

__all__ = [
    "MNIST", "FashionMNIST", "ImageFolder", "datasets", "make_grid", "read_idx", "read_picture", "save_image",
    "to_picture", "transforms",
]  # fmt: skip
