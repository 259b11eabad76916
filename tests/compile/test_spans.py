"""Spans of memory meet where NumPy says that arrays may share some."""

import numpy as np

import jitgrad as jg
from jitgrad.arrays import may_share_memory
from jitgrad.compiler.memory import Spans


def test_spans_meet_where_memory_may_be_shared():
    rng = np.random.default_rng(0)
    base = np.zeros((20, 30))
    arrays = [np.zeros(0), np.zeros((3, 0)), base[5:5], np.zeros(()), np.broadcast_to(base[0, 0], (3,))]
    for _ in range(100):
        a, b = sorted(rng.integers(0, 21, 2))
        c, d = sorted(rng.integers(0, 31, 2))
        arrays.append(base[a:b, c:d][:: rng.choice([-2, -1, 1, 2])])
    for i, x in enumerate(arrays):
        t, before = jg.from_numpy(x), [jg.from_numpy(y) for y in arrays[:i]]
        expected = any(may_share_memory(x, y) for y in arrays[:i])
        spans = Spans(before)
        assert spans.meet(t) == expected
        spans.add(t)
        assert spans.meet(t) == expected
