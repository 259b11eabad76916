"""A sampler that gives each of several processes a share of the items."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from jitgrad.ir.errors import ArgumentError

from ...errors import located
from ...random import Generator
from .dataset import permutation
from .sampler import Sampler


class DistributedSampler(Sampler):
    """Every `num_replicas`th item from `rank` on, in an order that all processes shuffle alike.

    Items are repeated until all have the same number, or with `drop_last` left out. Call `set_epoch` before each epoch
    for another order.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=0, shuffle=False))
    [0, 2, 4]
    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        replicas = 1 if num_replicas is None else num_replicas
        at = 0 if rank is None else rank
        if not 0 <= at < replicas:
            raise located(ArgumentError(f"Invalid rank {at}, rank should be in the interval [0, {replicas - 1}]"))
        self.dataset = dataset
        self.num_replicas = replicas
        self.rank = at
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        count = len(dataset)
        self.num_samples = count // replicas if drop_last and count % replicas else math.ceil(count / replicas)
        self.total_size = self.num_samples * replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        generator = Generator()
        generator.manual_seed(self.seed + self.epoch)
        order = permutation(count, generator) if self.shuffle else list(range(count))
        if self.drop_last:
            order = order[: self.total_size]
        else:
            order = (order * math.ceil(self.total_size / max(count, 1)))[: self.total_size]
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self.epoch = epoch
