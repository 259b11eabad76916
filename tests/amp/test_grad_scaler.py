"""GradScaler: the course of scale and parameters with overflows, eagerly and compiled, beside PyTorch's; its errors."""

import pickle
import warnings

import numpy as np
import pytest

import jitgrad as jg

OPTIMIZERS = {
    "sgd": lambda lib, params: lib.optim.SGD(params, lr=0.1),
    "momentum": lambda lib, params: lib.optim.SGD(params, lr=0.1, momentum=0.9),
    "adam": lambda lib, params: lib.optim.Adam(params, lr=0.1),
}


def course(lib, optimizer, is_compiled=False, clips=False):
    """Losses, parameters, scale and count of good steps over twelve steps, of which two overflow."""
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    b = lib.tensor([0.5], requires_grad=True)
    optimizer = optimizer(lib, [w, b])
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sum() * b.sum()
        scaler.scale(loss).backward()
        if clips:
            scaler.unscale_(optimizer)
            w.grad.clamp_(-0.1, 0.1)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = jg.compile(step) if is_compiled else step
    found = []
    for i in range(12):
        loss = step(lib.tensor([1.0, float("inf") if i in (4, 5) else 0.1 * i]))
        found.append([float(loss), *w.tolist(), *b.tolist(), scaler.get_scale(), scaler._get_growth_tracker()])
    return np.array(found), scaler.state_dict(), step


@pytest.mark.torch
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_course_is_that_of_pytorch(name):
    torch = pytest.importorskip("torch")
    for clips in (False, True):
        want, got = (course(lib, OPTIMIZERS[name], clips=clips) for lib in (torch, jg))
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
        assert got[1] == want[1]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_equals_eager(name):
    want = course(jg, OPTIMIZERS[name])
    with warnings.catch_warnings():  # the first step, which makes the optimizer's state, runs eagerly
        warnings.filterwarnings("ignore", message=r".*Python runs at each call.*GradScaler")
        got = course(jg, OPTIMIZERS[name], is_compiled=True)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    assert got[1] == want[1]
    assert sum(s.runs for s in got[2].explain().specialisations if hasattr(s, "guards")) >= 10


def test_several_optimizers_share_the_scale():
    w, v = (jg.ones(1, requires_grad=True) for _ in range(2))
    a, b = jg.optim.SGD([w], lr=1.0), jg.optim.SGD([v], lr=1.0)
    scaler = jg.amp.GradScaler("cpu", init_scale=4.0)
    first, second = scaler.scale([w.sum() * float("inf"), v.sum()])
    (first + 0).backward()
    second.backward()
    scaler.step(a)
    scaler.step(b)
    scaler.update()
    assert (w.tolist(), v.tolist(), scaler.get_scale()) == ([1.0], [0.0], 2.0)


def scaled():
    w = jg.ones(2, requires_grad=True)
    optimizer, scaler = jg.optim.SGD([w], lr=1.0), jg.amp.GradScaler("cpu")
    scaler.scale(w.sum()).backward()
    return w, optimizer, scaler


def test_order_of_calls():
    _, optimizer, scaler = scaled()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer since the last"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update"):
        scaler.step(optimizer)
    scaler.update(2.5)
    assert scaler.get_scale() == 2.5
    with pytest.raises(RuntimeError, match=r"Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: None)
    fresh = jg.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match=r"Attempted step but _scale is None"):
        fresh.step(optimizer)
    with pytest.raises(AssertionError, match=r"Attempted update but _scale is None"):
        fresh.update()
    w, optimizer, scaler = scaled()
    w.grad = None
    with pytest.raises(AssertionError, match=r"No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)


def test_arguments_are_checked():
    with pytest.raises(AssertionError, match=r"growth factor must be > 1"):
        jg.amp.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match=r"backoff factor must be < 1"):
        jg.amp.GradScaler("cpu", backoff_factor=1.0)
    with pytest.raises(ValueError, match=r"outputs must be a Tensor or an iterable"):
        jg.amp.GradScaler("cpu").scale(3)
    half = jg.ones(1, dtype=jg.float16, requires_grad=True)
    scaler = jg.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(half.sum()).backward()
    with pytest.raises(ValueError, match=r"Attempting to unscale FP16 gradients"):
        scaler.unscale_(jg.optim.SGD([half], lr=1.0))


def test_switched_off_it_does_nothing():
    w = jg.ones(1, requires_grad=True)
    scaler, loss = jg.amp.GradScaler("cpu", enabled=False), w.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.step(jg.optim.SGD([w], lr=1.0))
    scaler.update()
    assert (w.tolist(), scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == ([0.0], 1.0, {}, False)


def test_state_is_saved_and_pickled():
    _, optimizer, scaler = scaled()
    with pytest.raises(AssertionError, match=r"may only be pickled at the beginning"):
        scaler.step(optimizer)
        pickle.dumps(scaler)
    scaler.update()
    other = jg.amp.GradScaler("cpu", init_scale=3.0)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() == pickle.loads(pickle.dumps(scaler)).state_dict()
    with pytest.raises(RuntimeError, match=r"source state dict is empty"):
        other.load_state_dict({})
