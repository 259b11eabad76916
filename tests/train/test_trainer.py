"""`Trainer`: the loop of one's own gives the same numbers; accumulation, clipping, schedules, callbacks, logs."""

import copy
import csv
import importlib.util
import math

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.train import CSVLog, EarlyStopping, LossPlot, SaveBest, TensorBoardLog, Trainer, accuracy
from jitgrad.utils.data import DataLoader, TensorDataset

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="no Matplotlib here")


def make_data(count=40, seed=0):
    generator = jg.Generator().manual_seed(seed)
    x = jg.randn(count, 4, generator=generator)
    return TensorDataset(x, (x[:, 0] > x[:, 1]).long())


def make_model(seed=0):
    jg.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def make_trainer(model=None, lr=0.1, momentum=0.9, **options):
    model = make_model() if model is None else model
    optimizer = jg.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    options = {"metrics": {"accuracy": accuracy}, "progress": False, **options}
    return Trainer(model, nn.CrossEntropyLoss(), optimizer, **options)


def weights(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


@pytest.mark.parametrize("compiled", [True, False])
def test_it_is_the_loop_that_one_would_write(compiled):
    model = make_model()
    optimizer = jg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = jg.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    losses, means = [], []
    for _ in range(3):
        total = 0.0
        for x, y in DataLoader(make_data(), 16):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
            total += loss.item() * len(x)
        means.append(total / 40)
        scheduler.step()
    trainer = make_trainer(clip_norm=0.5, compile=compiled)
    trainer.scheduler = jg.optim.lr_scheduler.StepLR(trainer.optimizer, 1, gamma=0.5)
    history = trainer.fit(DataLoader(make_data(), 16), epochs=3)
    np.testing.assert_allclose(history.steps["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(history.epochs["loss"], means, rtol=1e-5)
    np.testing.assert_allclose(weights(trainer.model), weights(model), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(history.epochs["lr"], [0.1, 0.05, 0.025])
    assert history.steps["step"] == list(range(1, 10)) and all(n > 0 for n in history.steps["grad_norm"])


@pytest.mark.parametrize("compiled", [True, False])
def test_accumulated_batches_are_one_batch_of_all_items(compiled):
    """The last group of an epoch is shorter, and its last batch smaller."""
    whole = make_trainer(compile=compiled)
    parts = make_trainer(compile=compiled, accumulate=2)
    for _ in range(2):
        whole.fit(DataLoader(make_data(44), 16), epochs=whole.epoch + 1)
        parts.fit(DataLoader(make_data(44), 8), epochs=parts.epoch + 1)
    assert len(whole.history.steps) == len(parts.history.steps) == 6
    np.testing.assert_allclose(parts.history.steps["loss"], whole.history.steps["loss"], rtol=1e-5)
    np.testing.assert_allclose(weights(parts.model), weights(whole.model), rtol=1e-4, atol=1e-6)


def test_epochs_compile_once():
    trainer = make_trainer()
    data = DataLoader(make_data(), 16)
    trainer.fit(data, data, epochs=2)
    with jg.assert_no_compile():
        trainer.fit(data, data, epochs=5)
    explained = trainer._training_step._compiled[0].explain()
    assert not explained.eager and len(explained.specialisations) == 2  # full batches, and the last


def test_clipping_by_value():
    trainer = make_trainer(clip_value=1e-3, lr=1.0, momentum=0.0)
    before = weights(trainer.model).copy()
    trainer.fit(DataLoader(make_data(), 16), steps=1)
    assert 0 < abs(weights(trainer.model) - before).max() <= 1e-3 * (1 + 1e-5)


def test_evaluation_keeps_modes_and_weights():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.dropout = nn.Linear(4, 2), nn.Dropout(0.9)
            self.frozen = nn.BatchNorm1d(4).eval()

        def forward(self, x):
            return self.linear(self.dropout(self.frozen(x)))

    trainer = make_trainer(Counting())
    data = DataLoader(make_data(), 16)
    first, second = trainer.evaluate(data), trainer.evaluate(data)
    assert first == second and set(first) == {"loss", "accuracy"}
    assert trainer.model.dropout.training and not trainer.model.frozen.training
    outputs = trainer.predict(data)
    assert outputs.shape == (40, 2) and not outputs.requires_grad
    assert (outputs == trainer.predict(x for x, _ in data)).all()
    by_hand = nn.functional.cross_entropy(outputs, make_data().tensors[1]).item()
    assert math.isclose(first["loss"], by_hand, rel_tol=1e-5)


def test_other_batches_by_a_forward_of_ones_own():
    def forward(model, batch):
        output = model(batch["x"])
        return nn.functional.mse_loss(output, batch["x"][:, :2]), output, batch["x"]

    model = make_model()
    trainer = Trainer(model, None, jg.optim.Adam(model.parameters(), lr=0.01), forward=forward, progress=False)
    data = DataLoader([{"x": row} for row in make_data().tensors[0]], 16)
    history = trainer.fit(data, epochs=20)
    assert history.epochs["loss"][-1] < 0.5 * history.epochs["loss"][0]
    assert trainer.predict(data).shape == (40, 2)


def test_early_stopping_restores_the_best():
    class Weights(jg.train.Callback):
        def __init__(self):
            self.after = []

        def on_epoch_end(self, trainer, values):
            self.after.append(weights(trainer.model).copy())

    seen = Weights()
    stop = EarlyStopping(patience=2, restore_best=True)
    trainer = make_trainer(lr=30.0, callbacks=[seen, stop])  # far too large
    history = trainer.fit(DataLoader(make_data(), 16), DataLoader(make_data(seed=1), 16), epochs=50)
    best = int(np.argmin(history.epochs["val_loss"]))
    assert len(history.epochs) == best + 3 < 50 and stop.best.value == history.epochs["val_loss"][best]
    assert (weights(trainer.model) == seen.after[best]).all()


def test_schedules():
    trainer = make_trainer()
    trainer.scheduler = jg.optim.lr_scheduler.ReduceLROnPlateau(
        trainer.optimizer, patience=0, threshold=10.0, threshold_mode="abs"
    )
    trainer.fit(DataLoader(make_data(), 40), epochs=3)
    np.testing.assert_allclose(trainer.history.epochs["lr"], [0.1, 0.1, 0.01])
    trainer = make_trainer(scheduler_every="step")
    trainer.scheduler = jg.optim.lr_scheduler.ExponentialLR(trainer.optimizer, 0.5)
    trainer.fit(DataLoader(make_data(), 16), epochs=1)
    np.testing.assert_allclose(trainer.history.steps["lr"], [0.1, 0.05, 0.025])


@pytest.mark.parametrize("dtype", [jg.bfloat16, jg.float16])
@pytest.mark.parametrize("compiled", [True, False])
def test_autocast(dtype, compiled, tmp_path):
    def train(steps, resume=False):
        jg.manual_seed(0)
        trainer = make_trainer(autocast=dtype, compile=compiled, clip_norm=1.0, checkpoint=tmp_path / "last")
        trainer.fit(DataLoader(make_data(), 16), epochs=4, steps=steps, resume=resume)
        return trainer

    whole = train(12)
    assert whole.model[0].weight.dtype is jg.float32 and whole.predict(DataLoader(make_data(), 16)).dtype is dtype
    assert whole.history.epochs["loss"][-1] < whole.history.epochs["loss"][0]
    train(5)
    resumed = train(12, resume=True)
    if compiled:
        assert (weights(resumed.model) == weights(whole.model)).all()
    else:
        np.testing.assert_allclose(weights(resumed.model), weights(whole.model), atol=1e-2)  # half precision rounds


def test_the_best_is_saved(tmp_path):
    trainer = make_trainer(lr=30.0, callbacks=[SaveBest(tmp_path / "best", "val_accuracy")])
    data = DataLoader(make_data(), 16)
    history = trainer.fit(data, data, epochs=5)
    trainer.model.load_state_dict(jg.load(tmp_path / "best"))
    assert math.isclose(trainer.evaluate(data)["accuracy"], max(history.epochs["val_accuracy"]))


def test_csv(tmp_path):
    data = DataLoader(make_data(), 16)
    trainer = make_trainer(callbacks=[CSVLog(tmp_path)], checkpoint=tmp_path / "last")
    trainer.fit(data, epochs=1, steps=2)
    trainer = make_trainer(callbacks=[CSVLog(tmp_path)], checkpoint=tmp_path / "last")
    trainer.fit(data, data, epochs=2, resume=True)
    for name in ("steps", "epochs"):
        with open(tmp_path / f"{name}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [{k: float(v) for k, v in row.items()} for row in rows] == list(getattr(trainer.history, name))
    assert len(trainer.history.steps) == 6 and trainer.history.epochs["epoch"] == [1, 2]


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = make_trainer(callbacks=[TensorBoardLog(tmp_path, every=2)])
    trainer.fit(DataLoader(make_data(), 16), epochs=2)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    losses = events.Scalars("step/loss")
    assert [e.step for e in losses] == [2, 4, 6]
    np.testing.assert_allclose([e.value for e in losses], trainer.history.steps["loss"][1::2], rtol=1e-6)
    assert [e.step for e in events.Scalars("epoch/accuracy")] == [3, 6]


@needs_matplotlib
def test_pictures(tmp_path):
    data = DataLoader(make_data(), 8)
    trainer = make_trainer(callbacks=[LossPlot(tmp_path / "curves" / "loss.png")], clip_norm=1.0)
    trainer.fit(data, data, epochs=2)
    assert (tmp_path / "curves" / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("package", "make"), [("matplotlib", lambda p: LossPlot(p / "x.png")), ("tensorboard", TensorBoardLog)]
)
def test_packages_of_extras_are_asked_for(tmp_path, monkeypatch, package, make):
    modules = ("matplotlib.figure",) if package == "matplotlib" else ("tensorboard.compat.proto", "tensorboard.summary")
    for module in (*modules, package):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(RuntimeError, match=r"jitgrad\[logs\]"):
        make_trainer(callbacks=[make(tmp_path)]).fit(DataLoader(make_data(), 16), epochs=1)


def test_progress_is_shown(capsys):
    data = DataLoader(make_data(), 16)
    make_trainer(progress=True).fit(data, data, epochs=1)
    assert "epoch 1: loss 0." in capsys.readouterr().out


def test_top_k_and_others():
    scores = jg.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3]])
    target = jg.tensor([2, 0])
    assert accuracy(scores, target).item() == 0.5 and jg.train.top_k(2)(scores, target).item() == 1.0
    assert jg.train.confusion_matrix(scores.argmax(1), target, 3).tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_mistakes_are_named():
    data = DataLoader(make_data(), 16)
    with pytest.raises(ValueError, match=r"say how long, by epochs=\.\.\. or steps=\.\.\."):
        make_trainer().fit(data)
    with pytest.raises(ValueError, match="the loader gives no batch"):
        make_trainer().fit([], epochs=1)
    with pytest.raises(ValueError, match=r"a tuple or list of inputs and a target, not Tensor"):
        make_trainer(compile=False).fit(DataLoader(make_data().tensors[0], 16), epochs=1)
    with pytest.raises(ValueError, match="'epoch' or 'step', not 'day'"):
        make_trainer(scheduler_every="day")
    with pytest.raises(ValueError, match="at least 1, not 0"):
        make_trainer(accumulate=0)
    with pytest.raises(ValueError, match="needs checkpoint"):
        make_trainer(checkpoint_every=3)
    with pytest.raises(ValueError, match="'val_loss' among"):
        make_trainer(callbacks=[EarlyStopping()]).fit(data, epochs=1)
    model = make_model()
    with pytest.raises(ValueError, match="either a loss or forward"):
        Trainer(model, None, jg.optim.SGD(model.parameters(), lr=0.1))


def test_a_trained_model_is_an_ordinary_one():
    trainer = make_trainer()
    trainer.fit(DataLoader(make_data(), 16), epochs=1)
    assert type(trainer.model) is nn.Sequential and next(iter(trainer.model.state_dict())) == "0.weight"
    assert (weights(copy.deepcopy(trainer.model)) == weights(trainer.model)).all()
