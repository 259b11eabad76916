"""What the first call of a training step begins: it traces once, and leaves nothing where eager code left nothing."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.compiler import assert_no_compile

OPTIMIZERS = {
    "SGD": lambda p: jg.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: jg.optim.SGD(p, lr=0.1, momentum=0.9),
    "SGD, Nesterov": lambda p: jg.optim.SGD(p, lr=0.1, momentum=0.5, nesterov=True, weight_decay=0.1),
    "Adam": lambda p: jg.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: jg.optim.AdamW(p, lr=0.01, amsgrad=True),
    "Adamax": lambda p: jg.optim.Adamax(p, lr=0.01),
    "NAdam": lambda p: jg.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: jg.optim.RAdam(p, lr=0.01),
    "Adagrad": lambda p: jg.optim.Adagrad(p, lr=0.01),
    "Adadelta": lambda p: jg.optim.Adadelta(p),
    "RMSprop": lambda p: jg.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "Rprop": lambda p: jg.optim.Rprop(p, lr=0.01),
    "ASGD": lambda p: jg.optim.ASGD(p, lr=0.01),
    "Adafactor": lambda p: jg.optim.Adafactor(p, lr=0.01),
}


class Training:
    """A small model with its optimizer; `step` clears gradients first, as most programs do."""

    def __init__(self, make, compiled, **options):
        jg.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
        self.optimizer = make(self.model.parameters())
        self.x, self.y = jg.randn(5, 4), jg.randint(3, (5,))
        self.step = jg.compile(self._step, **options) if compiled else self._step

    def _step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def tensors(self):
        return [*self.model.parameters(), *(t for s in self.optimizer.state.values() for t in s.values())]


def assert_same(eager, compiled):
    for a, b in zip(eager.tensors(), compiled.tensors(), strict=True):
        want = a.detach().numpy()  # differences of larger numbers round as those do
        np.testing.assert_allclose(b.detach().numpy(), want, rtol=2e-4, atol=1e-6 * max(1, abs(want).max()))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_first_call_is_the_only_one_that_traces(name):
    eager, compiled = (Training(OPTIMIZERS[name], c) for c in (False, True))
    eager.step(eager.x, eager.y), compiled.step(compiled.x, compiled.y)
    assert_same(eager, compiled)
    with assert_no_compile():
        for _ in range(3):
            compiled.step(compiled.x, compiled.y)
    for _ in range(3):
        eager.step(eager.x, eager.y)
    assert_same(eager, compiled)


def test_dampening_does_not_count_in_the_first_step():
    runs = [Training(lambda p: jg.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5), c) for c in (False, True)]
    for _ in range(3):
        for run in runs:
            run.step(run.x, run.y)
        assert_same(*runs)


def test_the_first_mean_is_the_gradient_to_the_bit():
    p = jg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    optimizer = jg.optim.SGD([p], lr=0.1, momentum=0.9)
    gradient = jg.tensor([0.0, -0.0, float("inf"), 1e-45])

    @jg.compile
    def step():
        p.grad = gradient
        optimizer.step()

    step()
    buffer = optimizer.state[p]["momentum_buffer"]
    np.testing.assert_array_equal(buffer.numpy().view("i4"), gradient.numpy().view("i4"))


def test_gradients_of_another_time_are_dropped_without_a_look():
    run = Training(OPTIMIZERS["Adam"], True)
    run.step(run.x, run.y)
    run.model.zero_grad()
    with assert_no_compile():
        run.step(run.x, run.y)
    for p in run.model.parameters():
        p.grad = jg.ones_like(p)
    with assert_no_compile():
        run.step(run.x, run.y)


@pytest.mark.parametrize("where", ["before", "after"])
def test_code_that_looks_at_the_state(where):
    """It sees in each call what eager code sees there."""

    class Looking(Training):
        def _step(self, x, y):
            before = len(self.optimizer.state)
            loss = super()._step(x, y)
            return loss, before if where == "before" else len(self.optimizer.state)

    runs = [Looking(OPTIMIZERS["Adam"], c) for c in (False, True)]
    for _ in range(3):
        (a, n), (b, m) = (run.step(run.x, run.y) for run in runs)
        assert n == m
        np.testing.assert_allclose(b.item(), a.item(), rtol=1e-5)
    assert_same(*runs)


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}])
def test_a_refused_batch_leaves_no_state(options):
    eager, compiled = (Training(OPTIMIZERS["Adam"], c, **options) for c in (False, True))
    for run in (eager, compiled):
        with pytest.raises(IndexError):
            run.step(run.x, run.y + 3)
        assert len(run.optimizer.state) == 0
    for _ in range(3):
        for run in (eager, compiled):
            run.step(run.x, run.y)
    assert_same(eager, compiled)


def test_what_cannot_be_one_graph_leaves_no_state():
    class Printing(Training):
        def _step(self, x, y):
            loss = super()._step(x, y)
            return loss if loss > 0 else -loss

    run = Printing(OPTIMIZERS["Adam"], True, fullgraph=True)
    before = [p.detach().clone() for p in run.model.parameters()]
    with pytest.raises(jg.ir.errors.CompileError):
        run.step(run.x, run.y)
    assert len(run.optimizer.state) == 0
    for p, old in zip(run.model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), old.numpy())


def test_an_error_behind_the_step_leaves_what_was_done():
    class Failing(Training):
        def _step(self, x, y):
            super()._step(x, y)
            raise KeyError("behind the step")

    runs = [Failing(OPTIMIZERS["SGD with momentum"], c) for c in (False, True)]
    for _ in range(2):
        for run in runs:
            with pytest.raises(KeyError):
                run.step(run.x, run.y)
        assert_same(*runs)


def test_a_value_asked_for_before_and_behind_the_step():
    class Asking(Training):
        def _step(self, x, y):
            if x.sum() < -100:
                return x.sum()
            loss = super()._step(x, y)
            return loss if loss > 0 else -loss

    runs = [Asking(OPTIMIZERS["Adam"], c) for c in (False, True)]
    for _ in range(3):
        for run in runs:
            run.step(run.x, run.y)
        assert_same(*runs)
    with assert_no_compile():
        runs[1].step(runs[1].x, runs[1].y)


def test_parameters_that_get_their_first_gradient_later():
    def training(compiled):
        jg.manual_seed(0)
        a, b = (jg.randn(3).requires_grad_() for _ in range(2))
        optimizer = jg.optim.Adam([a, b], lr=0.1)

        def step(x, both):
            optimizer.zero_grad()
            ((a * x).sum() + ((b * x).sum() if both else 0)).backward()
            optimizer.step()

        return jg.compile(step) if compiled else step, (a, b)

    eager, compiled = training(False), training(True)
    x = jg.randn(3)
    for both in (False, False, True, False, True):
        for step, _ in (eager, compiled):
            step(x, both)
        for p, q in zip(eager[1], compiled[1], strict=True):
            np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-5)


def test_two_functions_that_share_an_optimizer():
    runs = [Training(OPTIMIZERS["Adam"], c) for c in (False, True)]
    for run in runs:
        run.other = jg.compile(run._step) if run is runs[1] else run._step
    for _ in range(2):
        for run in runs:
            run.step(run.x, run.y), run.other(run.x, run.y)
        assert_same(*runs)


def test_check_compares_the_first_call_too():
    run = Training(OPTIMIZERS["SGD with momentum"], True, check=True)
    for _ in range(2):
        run.step(run.x, run.y)
