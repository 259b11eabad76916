"""The layered layout: nothing overlaps, edges lead down, and large graphs take no long time."""

import random
import time
from itertools import pairwise

import pytest

from jitgrad.ir.layout import GAP, layered


def random_dag(n, seed):
    rng = random.Random(seed)
    sizes = [(rng.uniform(20, 200), rng.uniform(10, 40)) for _ in range(n)]
    edges = {(rng.randrange(max(0, b - 20), b), b) for b in range(1, n) for _ in range(rng.choice((0, 1, 2)))}
    return sizes, sorted(edges)


def overlap(a, b):
    return abs(a.x - b.x) < (a.width + b.width) / 2 - 1e-6 and abs(a.y - b.y) < (a.height + b.height) / 2 - 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_boxes_do_not_overlap_and_edges_lead_down(seed):
    sizes, edges = random_dag(60, seed)
    layout = layered(sizes, edges)
    for i, a in enumerate(layout.boxes):
        assert not any(overlap(a, b) for b in layout.boxes[i + 1 :])
        assert a.width / 2 - 1e-6 <= a.x <= layout.width - a.width / 2 + 1e-6
        assert a.height / 2 - 1e-6 <= a.y <= layout.height - a.height / 2 + 1e-6
    for (a, b), route in zip(edges, layout.routes):
        start, end = layout.boxes[a], layout.boxes[b]
        assert start.layer < end.layer
        ys = [y for _, y in route]
        assert ys == sorted(ys) and ys[0] == start.y + start.height / 2 and ys[-1] == end.y - end.height / 2
        assert abs(route[0][0] - start.x) <= start.width / 2 and abs(route[-1][0] - end.x) <= end.width / 2


def test_a_chain_is_straight():
    layout = layered([(100, 20)] * 5, [(k, k + 1) for k in range(4)])
    assert len({box.x for box in layout.boxes}) == 1


def test_sources_stand_above_their_first_user():
    layout = layered([(10, 10)] * 5, [(0, 1), (1, 2), (2, 3), (4, 3)][:3])
    assert [b.layer for b in layout.boxes] == [0, 1, 2, 3, 0]
    layout = layered([(10, 10)] * 5, [(0, 1), (1, 2), (2, 4), (3, 4)])
    assert layout.boxes[3].layer == 2


def test_neighbours_keep_their_distance():
    layout = layered([(30, 10)] * 4, [])
    xs = sorted(b.x for b in layout.boxes)
    assert all(b - a >= 30 + GAP - 1e-9 for a, b in pairwise(xs))


def test_nothing():
    layout = layered([], [])
    assert (layout.boxes, layout.width, layout.height) == ((), 0.0, 0.0)


def test_time_grows_with_size_alone():
    def seconds(n):
        sizes, edges = random_dag(n, 0)
        start = time.process_time()
        layered(sizes, edges)
        return time.process_time() - start

    seconds(200)
    assert seconds(4000) < 40 * seconds(400) + 0.5  # quadratic would be 100 times as long
