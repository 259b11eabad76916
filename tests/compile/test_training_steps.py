"""Whole training steps under `compile`: forward, loss, backward, clipping, optimizer; the same as eager ones."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn

STEPS = 50


def mlp():
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip


class Run:
    """A model, its optimizer and data, all from one seed, and a step that is compiled or not."""

    def __init__(self, compiled, model=mlp, optimizer=None, shape=(12,), clip=None, fullgraph=True):
        jg.manual_seed(0)
        self.model = model()
        make = optimizer or (lambda p: jg.optim.SGD(p, lr=0.1, momentum=0.9))
        self.optimizer = make(list(self.model.parameters()))
        self.x, self.y = jg.randn(20, *shape), jg.randint(4, (20,))
        self.clip = clip
        self.step = jg.compile(self._step, fullgraph=fullgraph) if compiled else self._step

    def _step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def tensors(self):
        states = [t for s in self.optimizer.state.values() for t in s.values() if t is not None]
        return [*self.model.state_dict().values(), *states]


def assert_same(eager, compiled, losses, rtol=2e-4):
    """The losses, and then all parameters, buffers and optimizer states, are equal within rounding."""
    got, want = (np.array([x.item() for x in column]) for column in zip(*losses, strict=True))
    np.testing.assert_allclose(want, got, rtol=rtol)
    assert got[-1] < got[0]
    for a, b in zip(eager.tensors(), compiled.tensors(), strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=rtol, atol=rtol)


def train(eager, compiled, steps=STEPS, between=lambda run, i: None, batch=lambda i: slice(None)):
    losses = []
    states = {id(run): jg.get_rng_state() for run in (eager, compiled)}
    for i in range(steps):
        row = []
        for run in (eager, compiled):
            between(run, i)
            jg.set_rng_state(states[id(run)])  # each run has the random numbers that it would have alone
            row.append(run.step(run.x[batch(i)], run.y[batch(i)]))
            states[id(run)] = jg.get_rng_state()
        losses.append(row)
    return losses


def specialisations(run):
    return len(run.step.explain().specialisations)


CASES = {
    "mlp, SGD": {},
    "mlp, plain SGD": {"optimizer": lambda p: jg.optim.SGD(p, lr=0.1)},
    "mlp, Nesterov": {"optimizer": lambda p: jg.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)},
    "mlp, Adam": {"optimizer": lambda p: jg.optim.Adam(p, lr=0.01, weight_decay=0.01)},
    "mlp, AdamW amsgrad": {"optimizer": lambda p: jg.optim.AdamW(p, lr=0.01, amsgrad=True)},
    "mlp, clipped": {"clip": 0.1, "optimizer": lambda p: jg.optim.Adam(p, lr=0.01)},
    "cnn, Adam": {"model": cnn, "shape": (1, 4, 4), "optimizer": lambda p: jg.optim.Adam(p, lr=0.01)},
    "cnn, SGD": {"model": cnn, "shape": (1, 4, 4)},
}


@pytest.mark.parametrize("case", CASES)
def test_steps(case):
    eager, compiled = Run(False, **CASES[case]), Run(True, **CASES[case])
    losses = train(eager, compiled)
    assert_same(eager, compiled, losses)
    assert specialisations(compiled) == 1


def test_a_schedule_changes_the_rate_without_tracing_again():
    runs = [Run(c, optimizer=lambda p: jg.optim.Adam(p, lr=0.03)) for c in (False, True)]
    schedules = {id(r): jg.optim.lr_scheduler.CosineAnnealingLR(r.optimizer, 50) for r in runs}
    losses = train(*runs, between=lambda run, i: schedules[id(run)].step() if i else None)
    assert_same(*runs, losses)
    assert specialisations(runs[1]) == 1


def test_another_last_batch_size():
    runs = [Run(c, model=cnn, shape=(1, 4, 4)) for c in (False, True)]
    losses = train(*runs, batch=lambda i: slice(0, 8) if i % 3 else slice(8, 20))
    assert_same(*runs, losses)
    assert specialisations(runs[1]) == 2


def test_train_and_eval_alternate():
    runs = [Run(c, model=cnn, shape=(1, 4, 4)) for c in (False, True)]
    losses = train(*runs, steps=20, between=lambda run, i: run.model.train(i % 4 < 2))
    assert_same(*runs, losses)
    assert specialisations(runs[1]) == 2


def test_a_frozen_layer_stays():
    runs = [Run(c, optimizer=lambda p: jg.optim.SGD(p, lr=0.1)) for c in (False, True)]

    def between(run, i):
        if i == 10:
            run.model[0].requires_grad_(False)
            run.weight = run.model[0].weight.detach().clone()

    losses = train(*runs, steps=20, between=between)
    assert_same(*runs, losses)
    for run in runs:
        np.testing.assert_array_equal(run.model[0].weight.detach().numpy(), run.weight.numpy())


def test_changed_options_are_followed():
    runs = [Run(c) for c in (False, True)]

    def between(run, i):
        group = run.optimizer.param_groups[0]
        if i == 8:
            group["momentum"] = 0.5
        if i == 14:
            group["nesterov"] = True
        if i == 20:
            group["weight_decay"] = 0.1

    losses = train(*runs, steps=26, between=between)
    assert_same(*runs, losses)


def test_loading_a_state_in_between():
    runs = [Run(c, optimizer=lambda p: jg.optim.Adam(p, lr=0.01)) for c in (False, True)]
    saved = {}

    def between(run, i):
        if i == 5:
            model = {k: v.clone() for k, v in run.model.state_dict().items()}
            state = run.optimizer.state_dict()
            state["state"] = {k: {n: t.clone() for n, t in v.items()} for k, v in state["state"].items()}
            saved[id(run)] = model, state
        if i == 12:
            model, state = saved[id(run)]
            run.model.load_state_dict(model)
            run.optimizer.load_state_dict(state)

    losses = train(*runs, steps=20, between=between)
    assert_same(*runs, losses)
    np.testing.assert_allclose(losses[12][1].item(), losses[5][1].item(), rtol=1e-4)


def test_hooks_added_in_between():
    runs = [Run(c) for c in (False, True)]

    def between(run, i):
        if i == 5:
            run.handle = run.model[1].register_forward_hook(lambda m, args, out: out * 0.5)
        if i == 10:
            run.handle.remove()

    assert_same(*runs, train(*runs, steps=15, between=between))


def test_gradients_that_accumulate():
    class Accumulating(Run):
        def _step(self, x, y):
            for part in (slice(0, 10), slice(10, 20)):
                (nn.functional.cross_entropy(self.model(x[part]), y[part]) / 2).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            return nn.functional.cross_entropy(self.model(x), y).detach()

    runs = [Accumulating(c) for c in (False, True)]
    assert_same(*runs, train(*runs, steps=10))


def test_only_the_model_compiled():
    class Outside(Run):
        def __init__(self, compiled, **kwargs):
            super().__init__(False, **kwargs)
            if compiled:
                assert jg.compile(self.model) is self.model

    runs = [Outside(c, model=cnn, shape=(1, 4, 4)) for c in (False, True)]
    assert_same(*runs, train(*runs, steps=20))
    assert list(runs[0].model.state_dict()) == list(runs[1].model.state_dict())
    assert repr(runs[0].model) == repr(runs[1].model)


def test_numbers_that_the_step_reads_itself_are_followed():
    class Reading(Run):
        def _step(self, x, y):
            return super()._step(x, y), self.optimizer.param_groups[0]["lr"] * 2

    run = Reading(True)
    for i, rate in enumerate([0.1, 0.1, 0.1, 0.05, 0.05]):
        run.optimizer.param_groups[0]["lr"] = rate
        assert run.step(run.x, run.y)[1] == rate * 2, i


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
def test_a_schedule_inside_the_step():
    class Scheduled(Run):
        def _step(self, x, y):
            loss = super()._step(x, y)
            self.schedule.step()
            return loss

    runs = [Scheduled(c, fullgraph=False) for c in (False, True)]
    for run in runs:
        run.schedule = jg.optim.lr_scheduler.ExponentialLR(run.optimizer, 0.9)
    assert_same(*runs, train(*runs, steps=8))
    assert runs[0].optimizer.param_groups[0]["lr"] == runs[1].optimizer.param_groups[0]["lr"] < 0.05


def test_options_set_inside_the_step():
    class Setting(Run):
        def _step(self, x, y):
            self.optimizer.param_groups[0]["lr"] = 0.05
            return super()._step(x, y)

    runs = [Setting(c, fullgraph=False) for c in (False, True)]

    def between(run, i):
        if i == 4:
            run.optimizer.param_groups[0]["lr"] = 0.5

    assert_same(*runs, train(*runs, steps=8, between=between))
    assert runs[1].optimizer.param_groups[0]["lr"] == 0.05


def test_gradients_set_to_zero_in_place():
    class Zeroing(Run):
        def _step(self, x, y):
            self.optimizer.zero_grad(set_to_none=False)
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            return loss

    runs = [Zeroing(c) for c in (False, True)]
    assert_same(*runs, train(*runs, steps=12))
    assert specialisations(runs[1]) == 2  # where there are no gradients yet, there is nothing to set to zero


def test_gradients_that_accumulate_over_calls():
    class Summing(Run):
        def _step(self, x, y):
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            return loss

    runs = [Summing(c, optimizer=lambda p: jg.optim.SGD(p, lr=0.02)) for c in (False, True)]

    def between(run, i):
        if i % 3 == 0:
            run.optimizer.step()
            run.optimizer.zero_grad()

    assert_same(*runs, train(*runs, steps=15, between=between))
    for p, q in zip(*(r.model.parameters() for r in runs), strict=True):
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_only_the_optimizer_compiled():
    runs = [Run(False, optimizer=lambda p: jg.optim.AdamW(p, lr=0.01)) for _ in range(2)]
    runs[1].optimizer.step = jg.compile(runs[1].optimizer.step)
    assert_same(*runs, train(*runs, steps=12))
    assert len(runs[1].optimizer.step.explain().specialisations) == 1


def test_a_closure():
    class Closing(Run):
        def _step(self, x, y):
            def closure():
                self.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.model(x), y)
                loss.backward()
                return loss

            return self.optimizer.step(closure)

    runs = [Closing(c) for c in (False, True)]
    assert_same(*runs, train(*runs, steps=8))


def test_half_precision_parameters():
    runs = [
        Run(c, model=lambda: mlp().to(jg.bfloat16), optimizer=lambda p: jg.optim.Adam(p, lr=0.01))
        for c in (False, True)
    ]
    for run in runs:
        run.x = run.x.to(jg.bfloat16)
    losses = train(*runs, steps=10)
    for a, b in losses:  # one rounding of bfloat16 apart is 1 in 256
        np.testing.assert_allclose(b.item(), a.item(), rtol=0.05)
    assert all(t.dtype in (jg.bfloat16, jg.float32) for t in runs[1].tensors())
