"""Datasets, samplers, collation and the loader."""

from collections import Counter, namedtuple

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.utils import data

ITEMS = data.TensorDataset(jg.arange(10), jg.arange(20.0).reshape(10, 2))


class Squares(data.Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, i):
        if i >= 7:
            raise IndexError
        return {"x": np.float32(i), "y": (i * i, f"n{i}")}


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(5))


def test_batches_in_order():
    loader = data.DataLoader(ITEMS, batch_size=4)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert [b[0].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[2][1].tolist() == [[16, 17], [18, 19]]
    assert len(list(data.DataLoader(ITEMS, batch_size=4, drop_last=True))) == 2


def test_shuffling_is_seeded_and_new_each_time():
    loader = data.DataLoader(ITEMS, batch_size=3, shuffle=True, generator=jg.Generator().manual_seed(1))
    first, second = ([i for b, _ in loader for i in b.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    again = data.DataLoader(ITEMS, batch_size=3, shuffle=True, generator=jg.Generator().manual_seed(1))
    assert [i for b, _ in again for i in b.tolist()] == first
    jg.manual_seed(5)
    default = [i for b, _ in data.DataLoader(ITEMS, 3, True) for i in b.tolist()]
    jg.manual_seed(5)
    assert default == [i for b, _ in data.DataLoader(ITEMS, 3, True) for i in b.tolist()]


def test_fast_batches_equal_collated_ones():
    slow = data.DataLoader(ITEMS, batch_size=4, collate_fn=lambda batch: data.default_collate(batch))
    for got, want in zip(data.DataLoader(ITEMS, batch_size=4), slow, strict=True):
        for g, w in zip(got, want, strict=True):
            assert g.dtype is w.dtype and g.tolist() == w.tolist()


def test_collation():
    batch = next(iter(data.DataLoader(Squares(), batch_size=3)))
    assert batch["x"].dtype is jg.float32 and batch["x"].tolist() == [0, 1, 2]
    assert batch["y"][0].dtype is jg.int64 and batch["y"][1] == ["n0", "n1", "n2"]
    Point = namedtuple("Point", "a b")
    point = data.default_collate([Point(1.0, jg.ones(2)), Point(2.0, jg.zeros(2))])
    assert point.a.dtype is jg.float64 and point.b.shape == (2, 2)
    assert data.default_collate([np.zeros((2, 2)), np.ones((2, 2))]).shape == (2, 2, 2)
    assert data.default_collate([True, False]).dtype is jg.bool
    with pytest.raises(TypeError, match="batch must contain"):
        data.default_collate([object()])
    with pytest.raises(ValueError, match="equal size"):
        data.default_collate([[1], [1, 2]])


def test_without_batches_and_iterables():
    single = list(data.DataLoader(ITEMS, batch_size=None))
    assert len(single) == 10 and single[3][0].item() == 3
    assert [b.tolist() for b in data.DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in data.DataLoader(Stream(), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(data.DataLoader(Stream(), batch_size=None)) == [0, 1, 2, 3, 4]


def test_samplers():
    assert [b[0].tolist() for b in data.DataLoader(ITEMS, sampler=[3, 1], batch_size=2)] == [[3, 1]]
    assert [b[0].tolist() for b in data.DataLoader(ITEMS, batch_sampler=[[0, 2], [5]])] == [[0, 2], [5]]
    drawn = list(data.RandomSampler(range(4), replacement=True, num_samples=1000))
    assert set(drawn) == {0, 1, 2, 3} and len(drawn) == 1000
    assert sorted(data.RandomSampler(range(4), num_samples=6)) != [0, 1, 2, 3]
    assert sorted(data.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    counts = Counter(data.WeightedRandomSampler([1, 0, 3], 4000))
    assert 1 not in counts and abs(counts[2] / counts[0] - 3) < 0.5
    assert sorted(data.WeightedRandomSampler([1, 0, 3], 2, replacement=False)) == [0, 2]
    with pytest.raises(ValueError, match="without replacement"):
        list(data.WeightedRandomSampler([1, 0, 3], 3, replacement=False))


def test_datasets():
    both = ITEMS + ITEMS
    assert len(both) == 20 and both[13][0].item() == 3 and both[-1][0].item() == 9
    part = data.Subset(ITEMS, [4, 2])
    assert len(part) == 2 and part[1][0].item() == 2
    a, b = data.random_split(ITEMS, [7, 3], generator=jg.Generator().manual_seed(0))
    assert len(a) == 7 and sorted(i for s in (a, b) for i in s.indices) == list(range(10))
    with pytest.raises(ValueError, match="Size mismatch"):
        data.TensorDataset(jg.zeros(2), jg.zeros(3))
    with pytest.raises(ValueError, match="Sum of input lengths"):
        data.random_split(ITEMS, [7, 4])


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0}, {"sampler": [1], "shuffle": True}, {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_size": None, "drop_last": True},
    ],
)  # fmt: skip
def test_arguments_that_exclude_each_other(options):
    with pytest.raises(ValueError):
        data.DataLoader(ITEMS, **options)
