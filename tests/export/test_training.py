"""Exported training steps: state that calls update as the step would, with the numbers of an optimizer as arguments."""

import warnings

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.ir.errors import CompileError
from jitgrad.nn import functional as F

BATCH = {"x": {0: "batch"}, "y": {0: "batch"}}
OPTIMIZERS = {
    "SGD": lambda p: jg.optim.SGD(p, lr=0.1),
    "momentum": lambda p: jg.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "Adam": lambda p: jg.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: jg.optim.AdamW(p, lr=0.01, amsgrad=True),
}


class Training:
    """A model with everything that has state, its optimizer, data of any batch size, and a step."""

    def __init__(self, optimizer="Adam"):
        jg.manual_seed(0)
        self.model = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Dropout(0.25), nn.Linear(36, 3),
        )  # fmt: skip
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def state(self):
        return {k: v.numpy().copy() for k, v in self.model.state_dict().items()}


def batch(n, seed):
    random = np.random.default_rng(seed)
    x = random.standard_normal((n, 1, 6, 6)).astype(np.float32)
    return jg.from_numpy(x), jg.from_numpy(random.integers(0, 3, n))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_equal_eager_ones(optimizer, tmp_path):
    training = Training(optimizer)
    before, drawn = training.state(), jg.default_generator.offset
    program = jg.export(training.step, batch(4, 0), dynamic=BATCH)
    after = training.state()
    assert all(np.array_equal(before[k], after[k]) for k in before)  # the export trains nothing
    assert not training.optimizer.state and jg.default_generator.offset == drawn
    assert all(p.grad is None for p in training.model.parameters())
    program.save(tmp_path / "step.jg")
    program = jg.load_program(tmp_path / "step.jg")
    for i, n in enumerate((4, 7, 2, 5, 4)):
        x, y = batch(n, i)
        want, got = training.step(x, y), program(x, y)
        np.testing.assert_allclose(got.item(), want.item(), 2e-4)  # the order of sums differs, and steps add up
    for name, value in training.state().items():
        np.testing.assert_allclose(program.state[f"model.{name}"].numpy(), value, 2e-3, 2e-4, err_msg=name)
    assert program.state["random.offset"].item() == jg.default_generator.offset


def test_state_has_names_and_kinds():
    training = Training("Adam")
    program = jg.export(training.step, batch(4, 0), dynamic=BATCH)
    kinds = {name: program.state.kind(name) for name in program.state}
    assert kinds["model.0.weight"] == "parameter" and kinds["model.1.running_mean"] == "buffer"
    assert kinds["model.1.num_batches_tracked"] == "buffer"
    assert kinds["optimizer.exp_avg.0"] == "optimizer" and kinds["random.offset"] == "random"
    assert program.stats().parameters == sum(p.numel() for p in training.model.parameters())
    assert {n.name for n in program.signature.numbers} == {"lr", "betas_0", "betas_1", "eps"}


def test_numbers_are_arguments_with_defaults():
    training = Training("SGD")
    program = jg.export(training.step, batch(4, 0), dynamic=BATCH)
    assert "lr: f64[] = 0.1" in str(program.signature)
    x, y = batch(5, 1)
    weight = program.state["model.6.weight"].numpy().copy()
    program(x, y, lr=0.0)
    np.testing.assert_array_equal(program.state["model.6.weight"].numpy(), weight)
    program(x, y, lr=jg.tensor(0.5))
    assert not np.array_equal(program.state["model.6.weight"].numpy(), weight)
    with pytest.raises(TypeError, match="'lr' must be a number, not str"):
        program(x, y, lr="high")


def test_state_is_saved_as_it_is(tmp_path):
    program = jg.export(Training("Adam").step, batch(4, 0), dynamic=BATCH)
    for i in range(3):
        program(*batch(4, i))
    program.save(tmp_path / "at3.jg")
    again = jg.load_program(tmp_path / "at3.jg")
    assert again.state["optimizer.step.0"].item() == 3
    for i in range(2):
        assert again(*batch(6, i)).item() == program(*batch(6, i)).item()
    untouched = jg.load_program(tmp_path / "at3.jg")  # calls write into memory, not into the file
    assert untouched.state["optimizer.step.0"].item() == 3


def test_an_optimizer_that_has_run_goes_on():
    training = Training("momentum")
    training.step(*batch(4, 9))
    program = jg.export(training.step, batch(4, 0), dynamic=BATCH)
    assert len(training.optimizer.state) == 5
    for i in range(3):
        np.testing.assert_allclose(program(*batch(4, i)).item(), training.step(*batch(4, i)).item(), 2e-4)


def test_a_first_step_that_differs_is_refused():
    layer = nn.Linear(3, 1)
    optimizer = jg.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, dampening=0.5)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(CompileError, match="make one call before the export"):
        jg.export(step, (jg.ones(4, 3),))
    step(jg.ones(4, 3))
    program = jg.export(step, (jg.ones(4, 3),))
    np.testing.assert_allclose(program(jg.ones(4, 3)).item(), step(jg.ones(4, 3)).item(), 1e-5)


def test_gradients_that_accumulate_are_state():
    w = jg.ones(3, requires_grad=True)

    def f(x):
        loss = (x * w).sum()
        loss.backward()
        return loss

    program = jg.export(f, (jg.ones(4, 3),), dynamic={"x": {0: "n"}})
    assert w.grad is None and program.state.kind("w.grad") == "gradient"
    program(jg.ones(2, 3)), program(jg.ones(5, 3))
    assert program.state["w.grad"].tolist() == [7, 7, 7]


def test_buffers_written_in_place_and_tensors_kept_elsewhere():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", jg.zeros((), dtype=jg.int64))
            self.last = None

        def forward(self, x):
            self.count += x.shape[0]
            self.last = x * 2
            return x + self.count

    module = Counter()
    with pytest.warns(UserWarning, match="keeps tensors in Python objects"):
        program = jg.export(module, (jg.ones(3),), dynamic={"x": {0: "n"}})
    assert module.count.item() == 0 and module.last is None
    assert program(jg.zeros(4)).tolist() == [4] * 4 and program(jg.zeros(2)).tolist() == [6] * 2
    assert program.state["count"].item() == 6


def test_python_objects_are_as_they_were():
    class Module(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.calls, self.seen, self.settings = 0, [], {"a": 1}

        def forward(self, x):
            self.calls += 1
            self.seen.append(x.shape[0])
            self.settings["last"] = self.calls
            if not hasattr(self, "scale"):
                self.register_buffer("scale", jg.full((2,), 3.0))
            return super().forward(x) * self.scale

    module = Module()
    epoch = module._epoch
    program = jg.export(module, (jg.ones(4, 3),), dynamic={"x": {0: "n"}})
    assert (module.calls, module.seen, module.settings, module._epoch) == (0, [], {"a": 1}, epoch)
    assert not hasattr(module, "scale") and list(module.state_dict()) == ["weight", "bias"]
    np.testing.assert_allclose(program(jg.ones(2, 3)).detach().numpy(), module(jg.ones(2, 3)).detach().numpy(), 1e-6)


def test_a_schedule_inside_the_step_is_refused_and_undone():
    layer = nn.Linear(3, 1)
    optimizer = jg.optim.SGD(layer.parameters(), lr=0.1)
    schedule = jg.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step(x):
        optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()
        schedule.step()

    with pytest.raises(CompileError, match="the call changes the number lr in Python"):
        jg.export(step, (jg.ones(4, 3),))
    assert optimizer.param_groups[0]["lr"] == 0.1 and schedule.last_epoch == 0


def test_state_that_is_rebound_is_refused():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = jg.zeros(3)

        def forward(self, x):
            self.h = (x.mean(0) + self.h).tanh()
            return self.h

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CompileError, match=r"write it in place \(copy_\).*\n.*Recurrent.forward"):
            jg.export(Recurrent(), (jg.ones(2, 3),))


def test_tied_weights_are_one_entry():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 4)
            self.out = nn.Linear(4, 5, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, i):
            return self.out(self.embed(i))

    program = jg.export(Tied(), (jg.tensor([1, 2]),), dynamic={"i": {0: "n"}})
    assert list(program.state) == ["embed.weight"]


def test_random_numbers_follow_the_state(tmp_path):
    jg.manual_seed(7)
    program = jg.export(lambda x: x + jg.randn(x.shape) + jg.rand(x.shape[0], 1), (jg.zeros(4, 2),),
                        dynamic={"x": {0: "n"}})  # fmt: skip
    program.save(tmp_path / "random.jg")
    program = jg.load_program(tmp_path / "random.jg")
    for n in (3, 5):
        want = jg.randn(n, 2) + jg.rand(n, 1)
        np.testing.assert_allclose(program(jg.zeros(n, 2)).numpy(), want.numpy(), 1e-5, 1e-6)
    program.state["random.seed"].fill_(11), program.state["random.offset"].zero_()
    first = program(jg.zeros(3, 2))
    program.state["random.offset"].zero_()
    np.testing.assert_array_equal(program(jg.zeros(3, 2)).numpy(), first.numpy())
