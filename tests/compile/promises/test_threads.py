"""Threads that call and compile the same and different functions at once; forks and async callers afterwards."""

import asyncio
import os
import random
import threading
import warnings

import numpy as np
import pytest

import jitgrad as jg

pytestmark = pytest.mark.filterwarnings("ignore:.*Python runs at each call")


def plain(x, scale):
    return (x * scale).tanh().sum(0)


def branchy(x, scale):
    return x.exp() if x.sum() > 0 else x * scale


def stepping(x, scale):
    w = jg.ones(x.shape[-1], dtype=x.dtype, requires_grad=True)
    ((x * w * w).sum() * scale).backward()
    return w.grad


def writing(x, scale):
    y = x.clone()
    y[0].mul_(scale)
    y.t().add_(1)
    return y.t() * 2


def with_effects(x, scale):
    seen = []
    for row in x:
        seen.append((row * scale).sum().item())
    return jg.tensor(seen)


def refusing(x, scale):
    return x[jg.tensor([0, x.shape[0] if scale > 1.5 else 0])]


FUNCTIONS = [plain, branchy, stepping, writing, with_effects, refusing]


def outcome(f, x, scale):
    try:
        return f(x, scale).numpy()
    except IndexError as error:
        return type(error).__name__


def work(compiled, seed, rounds, faults):
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    for _ in range(rounds):
        f = rng.choice(FUNCTIONS)
        g = compiled[f] if rng.random() < 0.8 else jg.compile(f)
        x = jg.tensor(numbers.uniform(-1, 1, (rng.choice((1, 2, 5)), rng.choice((1, 3, 40)))))
        scale = rng.choice((0.5, 1.0, 2.0, numbers.uniform(0, 1)))
        try:
            want, have = outcome(f, x, scale), outcome(g, x, scale)
            assert isinstance(want, str) == isinstance(have, str), (f.__name__, want, have)
            if not isinstance(want, str):
                np.testing.assert_allclose(have, want, rtol=1e-9)
        except Exception as error:
            faults.append(f"{f.__name__}, seed {seed}: {type(error).__name__}: {error}")


def run(threads, rounds, seed):
    compiled, faults = {f: jg.compile(f) for f in FUNCTIONS}, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = [
            threading.Thread(target=work, args=(compiled, seed + k, rounds, faults), daemon=True)
            for k in range(threads)
        ]
        for t in started:
            t.start()
        for t in started:
            t.join()
    assert not faults, "\n".join(faults[:5])
    return compiled


@pytest.mark.parametrize("seed", [0, 100])
def test_threads_call_and_compile_at_once(seed):
    run(6, 25, seed)


@pytest.mark.slow
def test_many_threads_call_and_compile_at_once():
    for seed in range(200, 1200, 100):
        run(8, 60, seed)


def test_a_fork_after_threads_have_compiled():
    compiled = run(4, 10, 300)
    faults = []
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                work(compiled, 301, 10, faults)
            status = len(faults)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    work(compiled, 302, 5, faults)
    assert not faults


def test_async_callers_take_turns():
    compiled = {f: jg.compile(f) for f in FUNCTIONS}

    async def caller(k):
        found = []
        for n in range(6):
            x = jg.full((2, 3), 0.1 * (k + n) - 0.3)
            found.append(outcome(compiled[branchy], x, 2.0) - outcome(branchy, x, 2.0))
            await asyncio.sleep(0)
            loop = asyncio.get_running_loop()
            found.append(await loop.run_in_executor(None, outcome, compiled[plain], x, 0.5) - outcome(plain, x, 0.5))
        return found

    async def all_callers():
        return await asyncio.gather(*map(caller, range(5)))

    for found in asyncio.run(all_callers()):
        assert all(np.abs(x).max() < 1e-6 for x in found)
