"""`DataLoader` with worker processes: the batches of one process, seeds, failures, and nothing left behind."""

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.utils import data


class Images(data.Dataset):
    """Arrays large enough to travel in shared memory, numbers, and text."""

    def __len__(self):
        return 11

    def __getitem__(self, i):
        return {"image": np.full((3, 64, 64), i, np.float32), "label": i, "name": f"image {i}"}


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(23))


class SharedStream(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(info.id * 100, info.id * 100 + 5) if info else range(10))


class Numbers(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return random.random(), np.random.rand(), jg.rand(()).item(), data.get_worker_info().seed


def flat(batches):
    return [x for batch in batches for x in batch.tolist()]


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"prefetch_factor": 1, "drop_last": True}])
def test_batches_are_those_of_one_process(options):
    def batches(num_workers, **more):
        generator = jg.Generator().manual_seed(3)
        loader = data.DataLoader(
            Images(), 2, shuffle=True, num_workers=num_workers, generator=generator,
            drop_last=options.get("drop_last", False), **more,
        )  # fmt: skip
        return [b for _ in range(2) for b in loader]

    alone = batches(0)
    together = batches(2, **{k: v for k, v in options.items() if k != "drop_last"})
    assert len(alone) == len(together)
    for a, b in zip(alone, together, strict=True):
        assert a["name"] == b["name"] and a["label"].tolist() == b["label"].tolist()
        assert b["image"].dtype is jg.float32 and (a["image"] == b["image"]).all()
        b["image"].add_(1)  # it may be written to


def test_single_items_and_tensors_of_all_kinds():
    items = [jg.arange(5000), jg.ones(3, 4000).bfloat16(), jg.ones(4000, 3).t(), jg.tensor(True), jg.zeros(0, 3)]
    for got, want in zip(data.DataLoader(items, batch_size=None, num_workers=1), items, strict=True):
        assert got.dtype is want.dtype and got.shape == want.shape and (got == want).all()


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_a_stream_gives_each_item_once(num_workers):
    assert flat(data.DataLoader(Stream(), 4, num_workers=num_workers)) == list(range(23))
    short = flat(data.DataLoader(Stream(), 4, num_workers=num_workers, drop_last=True))
    assert short == list(range(20))


def test_a_stream_may_share_itself_out():
    got = flat(data.DataLoader(SharedStream(), 5, num_workers=2))
    assert got == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]


def test_seeds_differ_by_worker_and_pass_and_repeat_with_the_generator():
    def draw():
        loader = data.DataLoader(Numbers(), None, num_workers=2, generator=jg.Generator().manual_seed(1))
        return [[tuple(map(float, item)) for item in loader] for _ in range(2)]

    first, second = draw(), draw()
    assert first == second
    every = [x for one_pass in first for item in one_pass for x in item[:3]]
    assert len(set(every)) == len(every)
    assert {item[3] for item in first[0]}.isdisjoint({item[3] for item in first[1]})


def test_persistent_workers_stay():
    loader = data.DataLoader(Pids(), None, num_workers=2, persistent_workers=True)
    first = set(loader)
    iterator = iter(loader)
    next(iterator)  # a pass left unfinished does not disturb the next
    assert set(loader) == first
    fresh = data.DataLoader(Pids(), None, num_workers=2)
    assert not set(fresh) & set(fresh)


class Pids(data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return os.getpid()


def test_as_they_arrive():
    class Slow(data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            time.sleep(1.0 if i == 0 else 0.0)
            return i

    got = list(data.DataLoader(Slow(), None, num_workers=2, in_order=False))
    assert sorted(got) == list(range(6)) and got[0] != 0


def test_worker_init_fn_and_collate_fn():
    def init(i):
        os.environ["JITGRAD_TEST_WORKER"] = str(i)

    def collate(items):
        return [os.environ["JITGRAD_TEST_WORKER"], *items]

    got = list(data.DataLoader(range(4), 1, num_workers=2, worker_init_fn=init, collate_fn=collate))
    assert got == [["0", 0], ["1", 1], ["0", 2], ["1", 3]]


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


class Unpicklable(Exception):
    def __init__(self, message):
        super().__init__(message)
        self.lock = sys.stdout


class Failing(data.Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 2:
            self.how()
        return i


def raise_(error):
    raise error


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        (lambda: raise_(ValueError("bad item")), ValueError, "ValueError: bad item"),
        (lambda: {}["key"], KeyError, "in __getitem__"),
        (lambda: raise_(TwoArguments(1, 2)), RuntimeError, "TwoArguments"),
        (lambda: raise_(Unpicklable("odd")), Unpicklable, "Unpicklable: odd"),
        (lambda: jg.ones(3) @ jg.ones(4), RuntimeError, "contracted axes differ|same number of elements|size"),
    ],
)
def test_an_exception_keeps_its_type_message_and_traceback(how, kind, text):
    iterator = iter(data.DataLoader(Failing(how), None, num_workers=2))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(kind, match=text) as caught:
        next(iterator)
    assert "worker process 0" in str(caught.value) and "Traceback" in str(caught.value)
    assert list(iterator) == [3, 4, 5]  # the worker lives


def test_an_exception_before_the_first_item():
    def init(i):
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        next(iter(data.DataLoader(range(3), num_workers=1, worker_init_fn=init)))


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by signal: SIGKILL"),
        (lambda: os._exit(3), "exited unexpectedly with exit code 3"),
    ],
)
def test_a_worker_that_dies_is_noticed(how, text):
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=text):
        list(data.DataLoader(Failing(how), None, num_workers=2))
    assert time.monotonic() - start < 10


def test_a_worker_that_hangs():
    iterator = iter(data.DataLoader(Failing(lambda: time.sleep(60)), None, num_workers=1, timeout=0.5))
    with pytest.raises(RuntimeError, match=r"timed out after 0\.5 seconds"):
        list(iterator)


def test_after_compiling():
    step = jg.compile(lambda x: (x * 2).sum())
    step(jg.ones(200_000))
    loader = data.DataLoader(Compiling(step), None, num_workers=2)
    assert [float(x) for x in loader] == [0.0, 400_000.0, 800_000.0]


class Compiling(data.Dataset):
    def __init__(self, step):
        self.step = step

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return self.step(jg.full((200_000,), float(i))).item()


def test_nothing_is_left_behind():
    """Neither processes nor shared memory, though a pass was left half way and the program just ended."""
    code = textwrap.dedent(
        """
        import os, numpy as np, jitgrad as jg
        from jitgrad.utils import data
        class Pids(data.Dataset):
            def __len__(self): return 50
            def __getitem__(self, i): return np.full(100_000, os.getpid())
        loader = data.DataLoader(Pids(), None, num_workers=2, persistent_workers=True)
        iterator = iter(loader)
        print(int(next(iterator)[0]), int(next(iterator)[0]), flush=True)
        """
    )
    shm = Path("/dev/shm")
    before = set(shm.iterdir()) if shm.is_dir() else set()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr
    for pid in map(int, done.stdout.split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert (set(shm.iterdir()) if shm.is_dir() else set()) <= before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_workers": -1}, "non-negative"),
        ({"timeout": -1}, "non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"prefetch_factor": 0, "num_workers": 1}, "should be positive"),
        ({"persistent_workers": True}, "persistent_workers"),
    ],
)
def test_options_that_make_no_sense(options, text):
    with pytest.raises(ValueError, match=text):
        data.DataLoader(range(3), **options)


def test_other_datasets():
    assert list(data.ChainDataset([Stream(), Stream()]))[20:26] == [20, 21, 22, 0, 1, 2]
    assert len(list(Stream() + Stream())) == 46
    stacked = data.StackDataset(range(3), "abc")
    assert len(stacked) == 3 and stacked[1] == (1, "b")
    with pytest.raises(ValueError, match="Size mismatch"):
        data.StackDataset(range(3), "ab")
    shares = [list(data.DistributedSampler(range(10), 3, rank, seed=1)) for rank in range(3)]
    assert len(set(map(len, shares))) == 1 and set().union(*shares) == set(range(10))
    with pytest.raises(ValueError, match="Invalid rank"):
        data.DistributedSampler(range(3), 2, 2)


class Mixed(data.Dataset):
    """Large tensors and arrays, some of which are put together in shared memory, and the files a worker has open."""

    def __len__(self):
        return 60

    def __getitem__(self, i):
        opened = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
        rows = np.full((40, 50), i, np.float32)
        return jg.from_numpy(rows) + 0.5, rows.astype(np.float64), jg.ones(4000).bfloat16() * i, i, opened


def with_more(items):
    """A batch, and beside it a large array that was not put together by the collation, and a part of one that was."""
    batch = data.default_collate(items)
    return [*batch, np.arange(9000) * len(items), batch[1][1:]]


@pytest.mark.parametrize("collate", [None, with_more])
def test_what_is_put_together_in_shared_memory_arrives_whole(collate):
    alone = list(data.DataLoader(Mixed(), 3, collate_fn=collate))
    together = list(data.DataLoader(Mixed(), 3, collate_fn=collate, num_workers=1))
    assert len(alone) == len(together) == 20
    for a, b in zip(alone, together, strict=True):
        for number, (x, y) in enumerate(zip(a, b, strict=True)):
            if number != 4:
                assert type(x) is type(y) and x.dtype == y.dtype and (x == y).all()
        b[0].zero_()  # it may be written to
    opened = [max(batch[4].tolist()) for batch in together]
    assert max(opened) <= opened[0] + 6  # a batch's files are closed with it


def test_collated_tensors_of_unequal_shapes_are_refused():
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(data.DataLoader([jg.zeros(2), jg.zeros(3)], 2))


class DropsPools(data.Dataset):
    """Lets go, in a worker, of what was forked: another loader's pool among it."""

    def __init__(self, held):
        self.held = held

    def __len__(self):
        return 4

    def __getitem__(self, i):
        self.held.clear()
        gc.collect()
        return i


def test_a_worker_leaves_the_workers_of_other_loaders_alone(capfd):
    held = [data.DataLoader(Pids(), None, num_workers=1, persistent_workers=True)]
    before = set(held[0])
    second = data.DataLoader(DropsPools(held), 2, num_workers=1, multiprocessing_context="fork")
    assert flat(second) == [0, 1, 2, 3]
    assert set(held[0]) == before  # the same process as before
    assert capfd.readouterr().err == ""
