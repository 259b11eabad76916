"""`checkpoint`: a part of a model whose activations are computed again in the backward pass instead of being kept.

Eagerly, by hooks on what operations save (`use_reentrant=False`) or by a custom function that runs the part again
(`use_reentrant=True`). While a function is being traced the part becomes one op whose gradient computes it again.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from jitgrad.ir.errors import ArgumentError, AutogradError

from ..autocasting import restored, snapshot
from ..autograd import Function, enable_grad
from ..autograd.api import backward as run_backward
from ..autograd.saved import SavedHooks, saved_hooks
from ..compiler.recompute import Part, once_more
from ..errors import located
from ..mode import local
from ..nn.containers import Sequential
from ..random import generators
from ..tensor import Tensor

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointError(AutogradError):
    """What was computed again is not what was computed at first."""


class _StopRecomputation(BaseException):
    """All that is needed has been computed again. No user's `except Exception` is to see it."""


class _EarlyStop:
    """What `set_checkpoint_early_stop` says, for all threads as in PyTorch."""

    enabled: bool | None = None


_early_stop = _EarlyStop()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Say for all checkpoints made inside whether recomputing stops as soon as all that is needed is there."""
    before = _early_stop.enabled
    _early_stop.enabled = enable
    try:
        yield
    finally:
        _early_stop.enabled = before


def noop_context_fn() -> Contexts:
    """Two contexts that do nothing: the default `context_fn`."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, keeping its inputs and not its activations, which backward computes again.

    Random numbers are the same the second time (unless `preserve_rng_state=False`), and so are autocast and the
    default device. `use_reentrant=False` takes any structure of arguments and results, nests, and allows
    `autograd.grad` and gradients of gradients; `context_fn` gives contexts for the two runs; `determinism_check`
    ("default" or "none") compares shapes, dtypes and devices of what is computed again, and raises
    `CheckpointError`. Inside a compiled function the two variants are one.

    >>> import jitgrad as jg
    >>> x = jg.ones(2, requires_grad=True)
    >>> y = jg.utils.checkpoint.checkpoint(lambda t: t.exp().sin(), x, use_reentrant=False)
    >>> y.sum().backward()
    >>> x.grad
    tensor([-2.4784, -2.4784])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended; "
            "use_reentrant=True is the default, as in older programs.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise located(ArgumentError("Unexpected keyword arguments: " + ",".join(kwargs)))
        if context_fn is not noop_context_fn or debug:
            raise located(ArgumentError("Passing `context_fn` or `debug` is only supported when use_reentrant=False."))
    elif determinism_check not in ("default", "none"):
        raise located(
            ArgumentError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
        )
    tracer, how = local.mode.tracer, (use_reentrant, context_fn, determinism_check, early_stop)
    if tracer is not None and tracer.reruns:  # backward runs eagerly then, and must find what eager code saves
        with tracer.paused():
            return _checkpointed(function, args, kwargs, preserve, *how)
    return _checkpointed(function, args, kwargs, preserve, *how)


def _checkpointed(
    function: Callable[..., Any], args: Any, kwargs: Any, preserve: bool, use_reentrant: bool,
    context_fn: Callable[[], Contexts], determinism_check: str, early_stop: bool,
) -> Any:  # fmt: skip
    """A call of `checkpoint` whose options have been looked at."""
    if use_reentrant and local.mode.tracer is None:
        return _Reentrant.apply(function, _Surroundings(preserve), *args)
    contexts = context_fn()
    if not local.mode.grad:
        return function(*args, **kwargs)
    stops = early_stop if _early_stop.enabled is None else _early_stop.enabled
    frame = _Frame(function, args, kwargs, _Surroundings(preserve), contexts[1], stops, determinism_check)
    return _run_as_part(lambda: frame.run(contexts[0], args))


def _run_as_part(run: Callable[[], Any]) -> Any:
    """What `run` gives; while tracing, what it does becomes one op, if it can."""
    tracer = local.mode.tracer
    if tracer is None:
        return run()
    part = Part(tracer)
    try:
        result = run()
    finally:
        part.leave()
    part.close()
    return result


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """The functions (or the modules of a `Sequential`) one after the other, in checkpointed segments but for the last.

    >>> import jitgrad as jg
    >>> model = jg.nn.Sequential(*[jg.nn.Linear(2, 2) for _ in range(4)])
    >>> jg.utils.checkpoint.checkpoint_sequential(model, 2, jg.ones(1, 2), use_reentrant=False).shape
    jitgrad.Size([1, 2])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; use_reentrant=True is the default, as in older programs.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise located(ArgumentError("Unexpected keyword arguments: " + ",".join(kwargs)))
    parts = list(functions.children()) if isinstance(functions, Sequential) else list(functions)
    size = len(parts) // segments
    done = size * (segments - 1)
    for start in range(0, done, size or 1):
        input = checkpoint(
            _one_after_the_other(parts[start : start + size]), input, use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )  # fmt: skip
    return _one_after_the_other(parts[done:])(input)


def _one_after_the_other(parts: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(input: Any) -> Any:
        for part in parts:
            input = part(input)
        return input

    return run


class _Surroundings:
    """What a run depends on beside its arguments: random streams, autocast and the default device."""

    def __init__(self, preserve_rng: bool) -> None:
        self.autocast = snapshot()
        self.place = local.mode.place
        self.streams = _streams() if preserve_rng else None

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, all that is as it was."""
        mode = local.mode
        place, now = mode.place, None if self.streams is None else _streams()
        mode.place = self.place
        _set_streams(self.streams)
        try:
            with restored(self.autocast), enable_grad():
                yield
        finally:
            mode.place = place
            _set_streams(now)


def _streams() -> tuple[list[tuple[Any, int, int]], dict[int, int], dict[int, Any]]:
    """Where the random streams are, and how much the present trace has drawn from them."""
    tracer = local.mode.tracer
    drawn = {} if tracer is None else {key: used for key, (_, used, _) in tracer.draws.items()}
    return [(g, g.seed_value, g.offset) for g in generators()], drawn, {} if tracer is None else {**tracer.varying}


def _set_streams(streams: tuple[list[tuple[Any, int, int]], dict[int, int], dict[int, Any]] | None) -> None:
    if streams is None:
        return
    tracer = local.mode.tracer
    if tracer is not None:
        tracer.draws = {
            key: (generator, streams[1].get(key, 0), slots) for key, (generator, _, slots) in tracer.draws.items()
        }
        tracer.varying = {**streams[2]}
        return
    for generator, seed, offset in streams[0]:
        generator.seed_value, generator.offset = seed, offset


class _Holder:
    """Stands on the tape for what an operation saved; `value` is there between recomputing and use."""

    __slots__ = ("__weakref__", "value")

    def __init__(self) -> None:
        self.value: Tensor | None = None


class _Frame:
    """One checkpointed call: how to run it again, and what its operations saved.

    Tensor arguments are kept as an outer checkpoint keeps what is saved, so that nested ones free them too.
    """

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], surroundings: _Surroundings,
        context: AbstractContextManager[Any], stops: bool, check: str,
    ) -> None:  # fmt: skip
        outer = local.mode.saved_hooks
        self.args = [_kept(x, outer) for x in args]
        self.function, self.kwargs, self.surroundings, self.context = function, kwargs, surroundings, context
        self.stops, self.checks = stops, check == "default"
        self.holders: list[weakref.ref[_Holder]] = []
        self.facts: list[Any] = []

    def run(self, context: AbstractContextManager[Any], args: Sequence[Any]) -> Any:
        """What the function gives, the first time."""
        with saved_hooks(SavedHooks(self.pack, self.unpack)), context:
            return self.function(*args, **self.kwargs)

    def pack(self, t: Tensor) -> _Holder:
        """Keep a stand-in."""
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        self.facts.append(_facts(t))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        """What the stand-in stands for, after running the function again if that is needed."""
        if holder.value is None:
            self._run_again()
        value, holder.value = holder.value, None
        assert value is not None
        return value

    def _run_again(self) -> None:
        found: list[Any] = []

        def pack(t: Tensor) -> Tensor:
            index = len(found)
            found.append(_facts(t))
            holder = self.holders[index]() if index < len(self.holders) else None
            value: Tensor = t.detach()  # type: ignore[attr-defined]
            if holder is not None:
                holder.value = value
            if self.stops and index + 1 == len(self.holders):
                raise _StopRecomputation
            return value

        try:
            with self.surroundings.again():
                args = [once_more(x()) if isinstance(x, _Kept) else x for x in self.args]
                with self.context, saved_hooks(SavedHooks(pack, lambda t: t)):
                    self.function(*args, **self.kwargs)
        except _StopRecomputation:
            pass
        self._compare(found)

    def _compare(self, found: list[Any]) -> None:
        if len(found) != len(self.facts):
            raise located(
                CheckpointError(
                    "checkpoint: A different number of tensors was saved during the original forward and "
                    f"recomputation.\nNumber of tensors saved during forward: {len(self.facts)}\n"
                    f"Number of tensors saved during recomputation: {len(found)}."
                )
            )
        differing = [
            f"tensor at position {i}:\nsaved metadata: {before}\nrecomputed metadata: {now}"
            for i, (before, now) in enumerate(zip(self.facts, found, strict=True))
            if before != now and self.holders[i]() is not None
        ]
        if self.checks and differing:
            raise located(
                CheckpointError(
                    "checkpoint: Recomputed values for the following tensors have different metadata than during the "
                    "forward pass.\n" + "\n".join(differing)
                )
            )


def _facts(t: Tensor) -> dict[str, Any]:
    return {"shape": tuple(t.shape), "dtype": t.dtype, "device": t.device}


class _Kept:
    """A tensor argument, to be had again by a call."""

    def __init__(self, t: Tensor, outer: SavedHooks | None) -> None:
        self._requires_grad = t._requires_grad
        self._tensor = None if outer is not None and t._node is not None else t
        self._packed = None if self._tensor is not None or outer is None else outer.pack_hook(t)
        self._outer = outer

    def __call__(self) -> Tensor:
        if self._tensor is not None:
            return self._tensor
        assert self._outer is not None
        made: Tensor = self._outer.unpack(self._packed).detach()  # type: ignore[attr-defined]
        return made.requires_grad_(self._requires_grad)


def _kept(x: Any, outer: SavedHooks | None) -> Any:
    return _Kept(x, outer) if isinstance(x, Tensor) else x


class _Reentrant(Function):
    """Runs a function without recording, and in backward again with recording, followed by a backward of its own."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], surroundings: _Surroundings, *args: Any) -> Any:
        """The results; only tensor arguments are kept."""
        if not any(isinstance(x, Tensor) and x.requires_grad for x in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)
        ctx.function, ctx.surroundings = function, surroundings
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.save_for_backward(*[x if isinstance(x, Tensor) else None for x in args])
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of the arguments; those of parameters are added to them on the way."""
        if local.mode.targets_only:
            raise located(
                AutogradError(
                    "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter "
                    "to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                    ".backward() without passing the `inputs` argument."
                )
            )
        args = [
            x if t is None else t.detach().requires_grad_(t.requires_grad)
            for x, t in zip(ctx.others, ctx.saved_tensors, strict=True)
        ]
        with ctx.surroundings.again():
            outputs = ctx.function(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise located(AutogradError("none of output has requires_grad=True, this checkpoint() is not necessary"))
        run_backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *[x.grad if isinstance(x, Tensor) else None for x in args]


__all__ = [
    "CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn", "set_checkpoint_early_stop",
]  # fmt: skip
