"""`DataLoader`: mini-batches of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from jitgrad.ir.errors import ArgumentError

from ...errors import located
from ...random import Generator
from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Iterates over a dataset in mini-batches.

    Args:
        dataset: something with `__getitem__` and `__len__`, or an `IterableDataset`.
        batch_size: items in a batch; None gives single items.
        shuffle: take the items in random order, another one each time.
        sampler, batch_sampler: which items to take, instead of `shuffle` or of all these.
        collate_fn: makes a batch of a list of items.
        drop_last: leave out a last batch that is not full.
        generator: where the random order comes from.

    >>> import jitgrad as jg
    >>> data = jg.utils.data.TensorDataset(jg.arange(5))
    >>> for (x,) in jg.utils.data.DataLoader(data, batch_size=2):
    ...     print(x)
    tensor([0, 1])
    tensor([2, 3])
    tensor([4])
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Any] | None = None, num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
        timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        if num_workers:
            raise located(ArgumentError("DataLoader: items are loaded in this process only; num_workers must be 0"))
        self.dataset: Dataset[Any] = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self._is_iterable = isinstance(dataset, IterableDataset)
        _check_arguments(self._is_iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None and not self._is_iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and not self._is_iterable and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        batches = batch_sampler is not None or batch_size is not None
        self.collate_fn = collate_fn or (default_collate if batches else default_convert)

    def __iter__(self) -> Iterator[Any]:
        if self._is_iterable:
            return self._iterate()
        if self.batch_sampler is None:
            return (self.collate_fn(self.dataset[i]) for i in self.sampler)
        return map(self._batch, self.batch_sampler)

    def _batch(self, indices: list[Any]) -> Any:
        dataset: Any = self.dataset
        if type(dataset) is TensorDataset and self.collate_fn is default_collate:
            return dataset.batch(indices)
        if hasattr(dataset, "__getitems__"):
            return self.collate_fn(dataset.__getitems__(indices))
        return self.collate_fn([dataset[i] for i in indices])

    def _iterate(self) -> Iterator[Any]:
        items = iter(self.dataset)
        if self.batch_size is None:
            yield from (self.collate_fn(item) for item in items)
            return
        while batch := list(islice(items, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield self.collate_fn(batch)

    def __len__(self) -> int:
        if self._is_iterable:
            count = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


def _check_arguments(
    is_iterable: bool, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:  # fmt: skip
    """Raise for arguments that exclude each other."""
    if is_iterable and shuffle:
        raise located(
            ArgumentError(
                f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
            )
        )
    if is_iterable and (sampler is not None or batch_sampler is not None):
        raise located(ArgumentError("DataLoader with IterableDataset: expected unspecified sampler option"))
    if sampler is not None and shuffle:
        raise located(ArgumentError("sampler option is mutually exclusive with shuffle"))
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise located(
            ArgumentError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        )
    if batch_size is None and drop_last:
        raise located(
            ArgumentError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        )
