"""Transforms of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentTypeError

from ...errors import located
from .drawing import permutation, uniform

Transform = Callable[[Any], Any]


class Compose:
    """One transform after the other.

    >>> Compose([abs, float])(-2)
    2.0
    """

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image

    def __repr__(self) -> str:
        return "\n".join([f"{type(self).__name__}(", *[f"    {transform}" for transform in self.transforms], ")"])


class Lambda:
    """A function as a transform; a lambda does not reach workers that are started by spawning."""

    def __init__(self, lambd: Transform) -> None:
        if not callable(lambd):
            raise located(ArgumentTypeError(f"Argument lambd should be callable, got {type(lambd).__name__}"))
        self.lambd = lambd

    def __call__(self, image: Any) -> Any:
        return self.lambd(image)


class RandomApply(Compose):
    """All of the transforms with probability `p`, or none."""

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5) -> None:
        super().__init__(transforms)
        self.p = p

    def __call__(self, image: Any) -> Any:
        return super().__call__(image) if uniform() < self.p else image


class RandomChoice(Compose):
    """One of the transforms; as likely as its weight `p`, if given."""

    def __init__(self, transforms: Sequence[Transform], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        self.p = [1.0] * len(transforms) if p is None else list(p)

    def __call__(self, image: Any) -> Any:
        left = uniform(0, sum(self.p))
        for transform, weight in zip(self.transforms, self.p, strict=True):
            left -= weight
            if left < 0:
                return transform(image)
        return self.transforms[-1](image)


class RandomOrder(Compose):
    """All of the transforms, in random order."""

    def __call__(self, image: Any) -> Any:
        for which in permutation(len(self.transforms)):
            image = self.transforms[which](image)
        return image
