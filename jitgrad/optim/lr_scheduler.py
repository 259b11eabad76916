"""Learning-rate schedules: objects that set an optimizer's `lr` at each `step()`."""

from .schedules.base import LRScheduler
from .schedules.combined import ChainedScheduler, SequentialLR
from .schedules.cyclic import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .schedules.factor import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)  # fmt: skip
from .schedules.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
