"""`Trainer`: the loop that most trainings share."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from jitgrad.ir.dtypes import DType, float16
from jitgrad.ir.errors import ArgumentError

from .. import amp
from ..autograd import no_grad
from ..compiler import compile
from ..creation import zeros
from ..errors import located
from ..functions.joining import cat
from ..nn import Module
from ..optim import Optimizer
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from ..pytree import map_leaves
from ..serialization import load
from ..tensor import Tensor
from .callbacks import Callback
from .durable import save_durably
from .history import History
from .metrics import Averages
from .progress import ProgressBar
from .random_state import RandomState
from .step import Computation, Forward, Supervised, TrainingStep, batch_size

_FORMAT = 1


class Trainer:
    """Trains a model: epochs of compiled steps, validation, checkpoints.

    Args:
        model: any module.
        loss: a function of the model's output and the target, that gives the mean loss of a batch. A batch is a tuple
            or list of the model's inputs and, last, the target.
        optimizer: for the model's parameters; its step takes no closure.
        scheduler: of the learning rate; steps after each epoch, or with `scheduler_every="step"` after each step. A
            `ReduceLROnPlateau` gets the loss of the validation, or of the epoch if there is none.
        metrics: by name, functions of output and target that give a mean over the batch, such as `accuracy`.
        accumulate: batches for one step of the optimizer; together they count as one batch of all their items.
        clip_norm: the largest joint norm of the gradients; larger ones are scaled down. `clip_value`: the largest
            element.
        autocast: dtype of `amp.autocast` for forward pass and loss; None for none. float16 scales the loss too.
        forward: for other batches, instead of `loss`: a function of model and batch that gives the loss, and output and
            target for metrics.
        compile: compile the whole step; False runs it eagerly.
        callbacks: called in this order; see `Callback`.
        checkpoint: file for checkpoints, after each epoch and, if `checkpoint_every` is given, so many steps. A process
            killed at any moment leaves a whole one. `fit(..., resume=True)` goes on from it.
        progress: show bars and a line for each epoch.

    A resumed training gives the same bits as one that was not interrupted: parameters, optimizer and schedule, random
    numbers, the place in the epoch, averages and history are part of a checkpoint; batches of the epoch that are done
    are loaded again and left out. The loader must give the same batches for the same random state, as `DataLoader`
    does. And the step must be compiled as a whole: what runs eagerly (a step that asks for `item()`, or
    `compile=False`) moves to kernels, which round in another order, as it repeats in a process; with
    `jitgrad.config.compile` and `compile_backward` off it does not.

    >>> import jitgrad as jg
    >>> from jitgrad.utils.data import DataLoader, TensorDataset
    >>> _ = jg.manual_seed(0)
    >>> x = jg.randn(64, 2)
    >>> data = DataLoader(TensorDataset(x, (x[:, 0] > x[:, 1]).long()), batch_size=16, shuffle=True)
    >>> model = jg.nn.Linear(2, 2)
    >>> trainer = Trainer(
    ...     model, jg.nn.CrossEntropyLoss(), jg.optim.Adam(model.parameters(), lr=0.1),
    ...     metrics={"accuracy": jg.train.accuracy}, progress=False,
    ... )
    >>> history = trainer.fit(data, epochs=5)
    >>> len(history.steps), len(history.epochs), history.epochs["accuracy"][-1] > 0.9
    (20, 5, True)
    """

    def __init__(
        self, model: Module, loss: Callable[[Any, Any], Tensor] | None, optimizer: Optimizer,
        scheduler: LRScheduler | None = None, *, scheduler_every: str = "epoch",
        metrics: Mapping[str, Callable[[Any, Any], Tensor]] | None = None, accumulate: int = 1,
        clip_norm: float | None = None, clip_value: float | None = None, autocast: DType | None = None,
        forward: Forward | None = None, compile: bool = True, callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None, checkpoint_every: int | None = None, progress: bool = True,
    ) -> None:  # fmt: skip
        _check(scheduler_every, accumulate, checkpoint, checkpoint_every)
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.scheduler_every = scheduler_every
        self.accumulate = accumulate
        self.callbacks = [*([ProgressBar()] if progress else []), *callbacks]
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.checkpoint_every = checkpoint_every
        self.history = History()
        self.epoch = 0  # epochs that are done
        self.batch = 0  # batches of the present epoch that are done
        self.step = 0  # steps of the optimizer
        self.is_stopped = False
        self._averages = Averages()
        self._epoch_seconds = 0.0
        self._epoch_start: RandomState | None = None  # of the present epoch
        self._resume_at: RandomState | None = None  # where to go on within it
        computation = Computation(model, _forward(loss, forward), dict(metrics or {}), _precision(autocast, model))
        self._names = computation.names
        self._scaler = _scaler(autocast, model)
        self._training_step = TrainingStep(computation, optimizer, clip_norm, clip_value, self._scaler, compile)
        self._evaluated = _compiled(computation.evaluated, compile)
        self._output = _compiled(computation.output, compile)

    # training ---------------------------------------------------------------------------------------------

    def fit(
        self, loader: Iterable[Any], validation: Iterable[Any] | None = None, *, epochs: int | None = None,
        steps: int | None = None, resume: bool = False,
    ) -> History:  # fmt: skip
        """Train until so many epochs, or steps, are done in all; what it showed.

        With `resume`, goes on from the checkpoint if there is one. Called again with larger numbers, it goes on where
        it was. After each epoch the model is measured on `validation`.
        """
        if epochs is None and steps is None:
            raise located(ArgumentError("fit: say how long, by epochs=... or steps=..."))
        self.is_stopped = False
        if resume and self.checkpoint is not None and self.checkpoint.exists():
            self.load(self.checkpoint)
        self._resume_at = RandomState.of(loader) if self.batch and self._resume_at is None else self._resume_at
        try:
            self._tell("on_start")
            while not self._is_done(epochs, steps):
                self._run_epoch(loader, validation, steps)
        finally:
            self._tell("on_end")
        return self.history

    def stop(self) -> None:
        """End `fit` after the present step."""
        self.is_stopped = True

    def _is_done(self, epochs: int | None, steps: int | None) -> bool:
        reached = (epochs is not None and self.epoch >= epochs) or (steps is not None and self.step >= steps)
        return self.is_stopped or reached

    def _run_epoch(self, loader: Iterable[Any], validation: Iterable[Any] | None, steps: int | None) -> None:
        batches = self._batches(loader)
        self._tell("on_epoch_start", len(loader) if hasattr(loader, "__len__") else None)
        self.model.train()
        while group := list(islice(batches, self.accumulate)):
            start = time.perf_counter()
            self._train_on(group)
            self._epoch_seconds += time.perf_counter() - start
            if self.checkpoint_every and self.step % self.checkpoint_every == 0:
                self._save_checkpoint(loader)
            if self._is_done(None, steps) and self._is_within(loader):
                self._save_checkpoint(loader)
                return
        if self.batch == 0:
            raise located(ArgumentError("fit: the loader gives no batch"))
        self._end_epoch(validation)
        self._save_checkpoint(loader)

    def _batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The epoch's batches that are left."""
        for sampler in (getattr(loader, name, None) for name in ("sampler", "batch_sampler")):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self.epoch)
        go_on, self._resume_at = self._resume_at, None
        if self.batch:
            self._epoch_start.restore(loader)  # type: ignore[union-attr]
            batches = iter(loader)
            for _ in islice(batches, self.batch):
                pass
            go_on.restore(loader)  # type: ignore[union-attr]
            return batches
        if go_on is not None:
            go_on.restore(loader)
        self._epoch_start = RandomState.of(loader)
        return iter(loader)

    def _is_within(self, loader: Iterable[Any]) -> bool:
        """Whether the epoch is known to have more batches."""
        return not hasattr(loader, "__len__") or self.batch < len(loader)

    def _train_on(self, group: list[Any]) -> None:
        """One step of the optimizer."""
        rate = float(self.optimizer.param_groups[0]["lr"])
        values, size = self._training_step([self._placed(batch) for batch in group], is_first=self.step == 0)
        self._averages.add({name: values[name] for name in self._names}, size)
        self.batch += len(group)
        self.step += 1
        if self.scheduler is not None and self.scheduler_every == "step":
            self.scheduler.step()
        row = {"step": self.step, "lr": rate, **values}
        self.history.steps.append(row)
        self._tell("on_step_end", row)

    def _end_epoch(self, validation: Iterable[Any] | None) -> None:
        """Validate, step the schedule, tell the callbacks."""
        values = self._averages.compute()
        if validation is not None:
            values |= {f"val_{name}": x for name, x in self.evaluate(validation).items()}
        rate = float(self.optimizer.param_groups[0]["lr"])
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(values.get("val_loss", values["loss"]))
        elif self.scheduler is not None and self.scheduler_every == "epoch":
            self.scheduler.step()
        self.epoch += 1
        row = {"epoch": self.epoch, "step": self.step, **values, "lr": rate, "seconds": self._epoch_seconds}
        self.batch, self._averages, self._epoch_seconds = 0, Averages(), 0.0
        self.history.epochs.append(row)
        self._tell("on_epoch_end", row)

    # using the model --------------------------------------------------------------------------------------

    def evaluate(self, loader: Iterable[Any]) -> dict[str, float]:
        """The means of loss and metrics over a loader's items, in evaluation mode and without gradients."""
        averages = Averages()
        with evaluating(self.model), no_grad():
            for batch in loader:
                values = self._evaluated(self._placed(batch))
                named = zip(self._names, [x.item() for x in values], strict=True)
                averages.add(dict(named), batch_size(batch))
        return averages.compute()

    def predict(self, loader: Iterable[Any]) -> Tensor:
        """The model's outputs for a loader's items, one after the other, in evaluation mode and without gradients."""
        with evaluating(self.model), no_grad():
            return cat([self._output(self._placed(batch)) for batch in loader])

    def _placed(self, batch: Any) -> Any:
        """The batch where the model is."""
        device = next((p.device for p in self.model.parameters()), None)
        if device is None or device.type == "cpu":
            return batch
        return map_leaves(lambda x: x.to(device) if isinstance(x, Tensor) else x, batch)

    # checkpoints ------------------------------------------------------------------------------------------

    def state_dict(self, loader: Any = None) -> dict[str, Any]:
        """All that a resumed training needs. `loader`: the one being trained on, for its generators' states."""
        return {
            "format": _FORMAT,
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "scaler": None if self._scaler is None else self._scaler.state_dict(),
            "position": [self.epoch, self.batch, self.step],
            "is_stopped": self.is_stopped,
            "epoch_seconds": self._epoch_seconds,
            "random": [vars(s) for s in (self._epoch_start, RandomState.of(loader)) if s is not None],
            "averages": self._averages.state_dict(),
            "history": self.history.state_dict(),
            "callbacks": [callback.state_dict() for callback in self.callbacks],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state. Random numbers go on from it when `fit` does."""
        if state.get("format") != _FORMAT:
            raise located(ArgumentError(f"not a checkpoint of format {_FORMAT}: its format is {state.get('format')}"))
        if len(state["callbacks"]) != len(self.callbacks):
            raise located(
                ArgumentError(f"the checkpoint has {len(state['callbacks'])} callbacks, here are {len(self.callbacks)}")
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for part, name in ((self.scheduler, "scheduler"), (self._scaler, "scaler")):
            if part is not None:
                part.load_state_dict(state[name])
        if self._scaler is not None and state["position"][2]:
            # Its tensors are there from now on, as after the steps before: the next is compiled as they were.
            self._scaler.scale(zeros((), device=next(self.model.parameters()).device))
        self.epoch, self.batch, self.step = state["position"]
        self.is_stopped, self._epoch_seconds = state["is_stopped"], state["epoch_seconds"]
        *start, now = [RandomState(**s) for s in state["random"]]
        self._epoch_start, self._resume_at = (start[0] if start else None), now
        self._averages.load_state_dict(state["averages"])
        self.history.load_state_dict(state["history"])
        for callback, saved in zip(self.callbacks, state["callbacks"], strict=True):
            callback.load_state_dict(saved)

    def save(self, path: str | os.PathLike[str], loader: Any = None) -> None:
        """Save `state_dict` so that a kill at any moment leaves the old file or the new one."""
        save_durably(self.state_dict(loader), path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take up the state that `save` wrote."""
        self.load_state_dict(load(path))

    def _save_checkpoint(self, loader: Any) -> None:
        if self.checkpoint is not None:
            self.save(self.checkpoint, loader)

    def _tell(self, event: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *arguments)


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Put a model in evaluation mode for a while; then each of its modules is in the mode it was in.

    >>> import jitgrad as jg
    >>> model = jg.nn.Sequential(jg.nn.Dropout(), jg.nn.Dropout().eval())
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model[0].training, model[1].training
    (True, False)
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _forward(loss: Callable[[Any, Any], Tensor] | None, forward: Forward | None) -> Forward:
    if (loss is None) == (forward is None):
        raise located(ArgumentError("a Trainer needs either a loss or forward=..., and not both"))
    return Supervised(loss) if forward is None else forward  # type: ignore[arg-type]


def _compiled(f: Any, wanted: bool) -> Any:
    return compile(f) if wanted else f


def _check(scheduler_every: str, accumulate: int, checkpoint: Any, checkpoint_every: int | None) -> None:
    """Raise for arguments that make no sense."""
    if scheduler_every not in ("epoch", "step"):
        raise located(ArgumentError(f"scheduler_every is 'epoch' or 'step', not {scheduler_every!r}"))
    if accumulate < 1:
        raise located(ArgumentError(f"accumulate is the number of batches for a step, at least 1, not {accumulate}"))
    if checkpoint_every is not None and (checkpoint is None or checkpoint_every < 1):
        raise located(ArgumentError("checkpoint_every is a number of steps from 1 on, and needs checkpoint=..."))


def _precision(autocast: DType | None, model: Module) -> Callable[[], AbstractContextManager[Any]]:
    return nullcontext if autocast is None else functools.partial(amp.autocast, _kind(model), dtype=autocast)


def _scaler(autocast: DType | None, model: Module) -> amp.GradScaler | None:
    """float16 has too few exponents for small gradients."""
    return amp.GradScaler(_kind(model)) if autocast is float16 else None


def _kind(model: Module) -> str:
    """The kind of device a model is on."""
    return next((p.device.type for p in model.parameters()), "cpu")
