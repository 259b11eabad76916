"""Samplers: in which order a loader takes items, and which of them make a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from jitgrad.ir.dtypes import float64
from jitgrad.ir.errors import ArgumentError

from ...errors import located
from ...random import Generator, rand, randint
from ...tensor import to_array
from .dataset import permutation


class Sampler:
    """Base class: subclasses define `__iter__`, over numbers of items (or lists of them), and often `__len__`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler):
    """All items, in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """All items in random order; or `num_samples` of them, with `replacement` if told so."""

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise located(
                ArgumentError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
            )
        self.data_source = data_source
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many items it gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        if self.replacement:
            yield from map(int, to_array(randint(n, (count,), generator=self.generator)))
            return
        while count > 0:
            yield from permutation(n, self.generator)[:count]
            count -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The items named by `indices`, in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        return iter([self.indices[i] for i in permutation(len(self.indices), self.generator)])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` items, each as likely as its weight says."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:  # fmt: skip
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise located(
                ArgumentError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
            )
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        weights = np.asarray(self.weights, np.float64)
        if not self.replacement and self.num_samples > np.count_nonzero(weights):
            raise located(ArgumentError("cannot draw more samples without replacement than there are weights above 0"))
        count = self.num_samples if self.replacement else len(weights)
        u = to_array(rand(count, dtype=float64, generator=self.generator))
        if self.replacement:
            total = np.cumsum(weights)
            drawn = np.searchsorted(total, u * total[-1], side="right")
        else:  # the largest of u ** (1 / weight): Efraimidis and Spirakis, 2006
            with np.errstate(divide="ignore"):
                drawn = np.argsort(np.log(u) / weights)[::-1][: self.num_samples]
        return iter([int(i) for i in drawn])

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` numbers of another sampler; the last may be shorter, or is left out with `drop_last`.

    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise located(
                ArgumentError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
            )
        if not isinstance(drop_last, bool):
            raise located(ArgumentError(f"drop_last should be a boolean value, but got drop_last={drop_last}"))
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for i in self.sampler:
            batch.append(i)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
