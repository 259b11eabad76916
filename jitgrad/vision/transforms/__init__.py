"""Transforms of images for training and testing. Names and meanings are torchvision's.

They take pictures of Pillow's and tensors [..., height, width]. What is random comes from jitgrad's default generator,
which `manual_seed` sets, and which `DataLoader` seeds in its workers.
"""

from . import functional
from .arguments import InterpolationMode
from .color import ColorJitter, Grayscale, RandomGrayscale
from .combining import Compose, Lambda, RandomApply, RandomChoice, RandomOrder
from .conversion import ConvertImageDtype, Normalize, PILToTensor, ToPILImage, ToTensor
from .geometry import (
    CenterCrop,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
)

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "Grayscale", "InterpolationMode", "Lambda",
    "Normalize", "PILToTensor", "Pad", "RandomAffine", "RandomApply", "RandomChoice", "RandomCrop", "RandomErasing",
    "RandomGrayscale", "RandomHorizontalFlip", "RandomOrder", "RandomResizedCrop", "RandomRotation",
    "RandomVerticalFlip", "Resize", "ToPILImage", "ToTensor", "functional",
]  # fmt: skip
