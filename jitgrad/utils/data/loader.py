"""`DataLoader`: mini-batches of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jitgrad.ir.errors import ArgumentError

from ...errors import located
from ...random import Generator, randint
from ...tensor import to_array
from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .fetch import Fetcher
from .sampler import BatchSampler, RandomSampler, SequentialSampler

if TYPE_CHECKING:
    from .worker_pool import Pass, WorkerPool


class DataLoader:
    """Iterates over a dataset in mini-batches.

    Args:
        dataset: something with `__getitem__` and `__len__`, or an `IterableDataset`.
        batch_size: items in a batch; None gives single items.
        shuffle: take the items in random order, another one each time.
        sampler, batch_sampler: which items to take, instead of `shuffle` or of all these.
        num_workers: processes that load batches ahead; 0 loads them in this one. Batches and their order are the same.
        collate_fn: makes a batch of a list of items.
        pin_memory: put batches in page-locked memory, where there is a CUDA device to copy them to.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a batch from a worker; 0 waits forever.
        worker_init_fn: called in each worker with its number, after seeding.
        multiprocessing_context: how workers start: `"fork"`, `"spawn"`, `"forkserver"`, or a context.
        generator: where the random order, and the workers' seeds, come from.
        prefetch_factor: batches loaded ahead by each worker (2).
        persistent_workers: keep workers from one pass to the next.
        in_order: give batches in order; otherwise as they arrive.

    Workers seed `random`, NumPy and jitgrad with a seed of their own, drawn anew for each pass. Large arrays reach this
    process without being copied again. An exception in a worker is raised here with its type, message and traceback; a
    worker that dies raises `RuntimeError` at once. An `IterableDataset` that does not ask for `get_worker_info()` is
    gone through by each worker, which gives only its own batches, so that none comes twice.

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
        self.dataset: Dataset[Any] = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._is_iterable = isinstance(dataset, IterableDataset)
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
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
        self._makes_batches = batch_sampler is not None or batch_size is not None
        self.collate_fn = collate_fn or (default_collate if self._makes_batches else default_convert)
        self._pool: WorkerPool | None = None
        self._pass: Pass | None = None

    def __iter__(self) -> Iterator[Any]:
        seed = int(to_array(randint(0, 2**63 - 1, (), generator=self.generator)))
        batches = self._load_ahead(seed) if self.num_workers else self._load()
        return map(pinned, batches) if self.pin_memory else batches

    def _fetcher(self) -> Fetcher:
        size = self.batch_size if self._is_iterable else None
        return Fetcher(self.dataset, self.collate_fn, self._makes_batches, size, self.drop_last)

    def _load(self) -> Iterator[Any]:
        fetcher = self._fetcher()
        if self._is_iterable:
            return map(fetcher.collate, fetcher.groups())
        return map(fetcher.fetch, self._numbers())

    def _numbers(self) -> Iterator[Any]:
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def _load_ahead(self, seed: int) -> Iterator[Any]:
        from .worker_pool import Pass, WorkerPool

        pool = self._pool
        if pool is None or not pool.is_open:
            pool = WorkerPool(self._fetcher(), self.num_workers, self.worker_init_fn, self.multiprocessing_context)
        elif self._pass is not None:
            self._pass.finish()
        numbers = None if self._is_iterable else self._numbers()
        batches = Pass(pool, numbers, seed, self.prefetch_factor, self.timeout, self.in_order)  # type: ignore[arg-type]
        if self.persistent_workers:
            self._pool, self._pass = pool, batches
        return batches

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None, "_pass": None}

    def __len__(self) -> int:
        if self._is_iterable:
            count = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


def pinned(batch: Any) -> Any:
    """A batch with its tensors in page-locked memory."""
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return {key: pinned(value) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return type(batch)(*map(pinned, batch)) if hasattr(batch, "_fields") else tuple(map(pinned, batch))
    return [pinned(value) for value in batch] if isinstance(batch, list) else batch


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    """Raise for options of workers that make no sense."""
    if num_workers < 0:
        raise located(
            ArgumentError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        )
    if timeout < 0:
        raise located(ArgumentError("timeout option should be non-negative"))
    if not num_workers and prefetch_factor is not None:
        raise located(
            ArgumentError(
                "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
                "multiprocessing, otherwise set prefetch_factor to None."
            )
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise located(ArgumentError(f"prefetch_factor option should be positive, but got {prefetch_factor}"))
    if not num_workers and persistent_workers:
        raise located(ArgumentError("persistent_workers option needs num_workers > 0"))


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
