"""`utils.data.dataloader`, where older scripts look for what is in `utils.data`."""

from . import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    default_collate,
    default_convert,
    get_worker_info,
)

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler",
    "default_collate", "default_convert", "get_worker_info",
]  # fmt: skip
