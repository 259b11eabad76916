"""Compiled functions called for a long time, from several threads, and across a fork."""

import gc
import os
import threading
import time

import pytest

import jitgrad as jg


def test_what_is_remembered_is_bounded():
    made = iter(range(1, 1000))

    @jg.compile
    def f(x):
        return x * 2

    class Scaled(jg.nn.Module):
        scale = 0.0

        def forward(self, x):
            return x * self.scale

    net = jg.compile(Scaled())
    for _ in range(150):
        f(jg.ones(next(made)))
        net.scale = float(next(made))
        net(jg.ones(2))
    gc.collect()
    explanation = f.explain()
    assert len(explanation.entries) <= 128 and len(explanation.misses) <= 128
    assert len(net.explain().entries) <= 128


def test_a_call_that_waits_for_another_thread():
    inner = jg.compile(lambda x: x * 3 + 1)

    @jg.compile
    def outer(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(inner(jg.ones(3)).tolist()), daemon=True)
        thread.start()
        thread.join(20)
        return x + found[0][0]

    for _ in range(3):
        assert outer(jg.ones(2)).tolist() == [5.0, 5.0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore")
def test_a_fork_while_another_thread_compiles():
    def compile_on():
        for k in range(1, 12):
            jg.compile(lambda x, k=k: (x * k).sin().sum(0))(jg.ones(5 + k % 7, 4))

    thread = threading.Thread(target=compile_on)
    thread.start()
    try:
        child = os.fork()
        if child == 0:
            right = jg.compile(lambda x: x * 3)(jg.ones(3)).tolist() == [3.0] * 3
            os._exit(0 if right else 1)
        deadline = time.monotonic() + 30
        done, status = 0, 0
        while not done and time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if not done:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert done and status == 0
    finally:
        thread.join()
