"""Datasets: what gives an item for a number, or items one after the other."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError

from ...errors import located
from ...random import Generator, default_generator, randperm
from ...tensor import Tensor, to_array

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Base class: subclasses define `__getitem__`, and `__len__` if they have one."""

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Base class of datasets that are iterated over: subclasses define `__iter__`."""

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of equal length; an item is a tuple of their elements along the first axis.

    >>> import jitgrad as jg
    >>> data = jg.utils.data.TensorDataset(jg.arange(3), jg.ones(3))
    >>> data[1]
    (tensor(1), tensor(1.))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(len(tensors[0]) != len(t) for t in tensors):  # type: ignore[arg-type]
            raise located(ArgumentError("Size mismatch between tensors"))
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])  # type: ignore[index]

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def batch(self, indices: Sequence[int]) -> list[Tensor]:
        """The items of these numbers, stacked: one look-up for each tensor."""
        index = np.asarray(indices, np.int64)
        return [t[index] for t in self.tensors]  # type: ignore[index]


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise located(ArgumentError("datasets should not be an empty iterable"))
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        i = index + len(self) if index < 0 else index
        if not 0 <= i < len(self):
            raise located(ArgumentError("absolute value of index should not exceed dataset length"))
        which = bisect_right(self.cumulative_sizes, i)
        return self.datasets[which][i - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise located(ArgumentTypeError("ChainDataset only supports IterableDataset"))
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)  # type: ignore[arg-type]


class StackDataset(Dataset[Any]):
    """Datasets of equal length side by side; an item is a tuple of theirs, or a dict with names for keys.

    >>> StackDataset(x=range(3), y="abc")[1]
    {'x': 1, 'y': 'b'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise located(
                ArgumentError(
                    "Supported either `tuple`- (via `args`) or `dict`- (via `kwargs`) like input/output, and at least "
                    "one dataset should be passed"
                )
            )
        self.datasets: Any = args or kwargs
        parts = args or tuple(kwargs.values())
        self._length = len(parts[0])
        if any(len(d) != self._length for d in parts):
            raise located(ArgumentError("Size mismatch between datasets"))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple([d[index] for d in self.datasets])

    def __len__(self) -> int:
        return self._length


class Subset(Dataset[Any]):
    """The items of a dataset that `indices` names."""

    def __init__(self, dataset: Dataset[Any], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[Any], lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Subsets of these lengths, or of these shares of the dataset, drawn at random without overlap.

    >>> import jitgrad as jg
    >>> [len(part) for part in jg.utils.data.random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    total = len(dataset)  # type: ignore[arg-type]
    counts = _counts(lengths, total)
    if sum(counts) != total:
        raise located(ArgumentError("Sum of input lengths does not equal the length of the input dataset!"))
    order = permutation(total, generator)
    ends = list(accumulate(counts))
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, counts, strict=True)]


def _counts(lengths: Sequence[float], total: int) -> list[int]:
    if not math.isclose(sum(lengths), 1) or sum(lengths) > 1 + 1e-9:
        return [int(n) for n in lengths]
    counts = []
    for i, share in enumerate(lengths):
        if not 0 <= share <= 1:
            raise located(ArgumentError(f"Fraction at index {i} is not between 0 and 1"))
        counts.append(math.floor(total * share))
    for i in range(total - sum(counts)):
        counts[i % len(counts)] += 1
    for i, n in enumerate(counts):
        if n == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return counts


def permutation(n: int, generator: Generator | None) -> list[int]:
    """The numbers below `n` in an order drawn from the generator."""
    return [int(i) for i in to_array(randperm(n, generator=generator or default_generator))]
