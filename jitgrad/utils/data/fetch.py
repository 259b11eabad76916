"""From numbers of items to a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .collate import default_collate
from .dataset import IterableDataset, TensorDataset


@dataclass(frozen=True)
class Fetcher:
    """Takes items out of a dataset and puts them together; what a loader and its workers have in common.

    `batch_size` and `drop_last` are for an `IterableDataset`, which no sampler divides into batches; without a
    `batch_size`, and with `makes_batches` false, items stay single.
    """

    dataset: Any
    collate: Callable[[Any], Any]
    makes_batches: bool
    batch_size: int | None = None
    drop_last: bool = False

    @property
    def is_iterable(self) -> bool:
        """Whether the dataset is gone through once, without numbers."""
        return isinstance(self.dataset, IterableDataset)

    def fetch(self, indices: Any) -> Any:
        """The items that a sampler names: a list of them for a batch, or one."""
        dataset = self.dataset
        if not self.makes_batches:
            return self.collate(dataset[indices])
        if type(dataset) is TensorDataset and self.collate is default_collate:
            return dataset.batch(indices)
        if hasattr(dataset, "__getitems__"):
            return self.collate(dataset.__getitems__(indices))
        return self.collate([dataset[i] for i in indices])

    def groups(self) -> Iterator[Any]:
        """An `IterableDataset`'s items, in lists as long as a batch, or single."""
        items = iter(self.dataset)
        if self.batch_size is None:
            yield from items
            return
        while group := list(islice(items, self.batch_size)):
            if len(group) < self.batch_size and self.drop_last:
                return
            yield group
