"""Custom functions (`autograd.Function`) under `vmap` and forward mode.

At a level a custom function is one step, as an op is: one level further out stands a custom function whose `forward`
and `backward` are the user's for all samples, so that gradients there are the user's too. The level's own tape has a
node of the user's function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from jitgrad.ir.errors import AutogradError, UnsupportedError

from ..autograd.function import Context, Function, context_for, put_on_tape
from ..autograd.grad_mode import no_grad
from ..dispatch import lift
from ..errors import located
from ..levels import Level, LevelData, Outward
from ..mode import local
from ..tensor import Tensor, wrap
from .axes import moved_axis
from .batch import Batched, BatchLevel
from .dual import Dual, DualLevel


class VmapInfo(NamedTuple):
    """What the static method `vmap` of a custom function is told."""

    batch_size: int
    randomness: str


@contextmanager
def _inside(level: Level) -> Iterator[None]:
    """Inside, ops are those of `level` again."""
    mode = local.mode
    before = mode.levels, mode.outer_grad
    mode.levels, mode.outer_grad = (*level.below, level), True
    try:
        yield
    finally:
        mode.levels, mode.outer_grad = before


def apply_at(level: Level, cls: type[Function], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The results of a custom function some of whose arguments are of `level`."""
    lifted = [lift(level, a) if isinstance(a, Tensor) else a for a in args]
    ctx = context_for(lifted)
    ctx.needs_input_grad = tuple([isinstance(a, Tensor) and _needs_gradient(a) for a in lifted])
    if isinstance(level, DualLevel):
        out = _with_tangents(level, cls, ctx, lifted, kwargs)
    else:
        assert isinstance(level, BatchLevel)
        out = _of_samples(level, cls, ctx, lifted, kwargs)
    results = out if isinstance(out, tuple) else (out,)
    if ctx._dirty:
        raise located(AutogradError("mark_dirty is not supported inside vmap and forward mode: return a new tensor"))
    if local.mode.grad and any(isinstance(a, Tensor) and a._requires_grad for a in lifted):
        put_on_tape(cls, ctx, lifted, results)
    return out


def _needs_gradient(t: Tensor) -> bool:
    """Whether a gradient may be asked for it, at its level or further out."""
    while not t._requires_grad and isinstance(t._data, LevelData):
        t = t._data.outer()
    return t._requires_grad


def _of_samples(
    level: BatchLevel, cls: type[Function], ctx: Context, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    rule: Callable[..., Any] | None = getattr(cls, "vmap", None)
    parts = [level.data_of(a).physical if isinstance(a, Tensor) else a for a in args]
    if rule is None:
        with Outward(level):
            outs = _AllSamples.apply(level, cls, ctx, args, kwargs, *parts)
        results = [wrap(Batched(level, t, True)) if isinstance(t, Tensor) else t for t in outs[1:]]
        return tuple(results) if outs[0] else results[0]
    dims = tuple([0 if isinstance(a, Tensor) and level.data_of(a).batched else None for a in args])
    with Outward(level):
        out, out_dims = rule(VmapInfo(level.size, level.randomness), dims, *parts, **kwargs)
    several = isinstance(out, tuple)
    where = out_dims if isinstance(out_dims, tuple) else (out_dims,) * (len(out) if several else 1)
    with Outward(level):
        made = [
            t if not isinstance(t, Tensor) else Batched(level, t if d is None else moved_axis(t, d, 0), d is not None)
            for t, d in zip(out if several else (out,), where, strict=True)
        ]
    results = [wrap(x) if isinstance(x, Batched) else x for x in made]
    given = tuple(results) if several else results[0]
    cls.setup_context(ctx, tuple(args), given)
    return given


def _with_tangents(
    level: DualLevel, cls: type[Function], ctx: Context, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """By the function's `jvp`, one level further out."""
    data = [level.data_of(a) if isinstance(a, Tensor) else a for a in args]
    moves = any(isinstance(d, Dual) and d.tangent is not None for d in data)
    if moves and cls.jvp is Function.jvp:
        raise located(
            UnsupportedError(
                "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
            )
        )
    primals = [d.primal if isinstance(d, Dual) else d for d in data]
    outside = context_for(primals)
    with Outward(level):
        out = cls._apply_in(outside, tuple(primals), kwargs)
        several = isinstance(out, tuple)
        results = out if several else (out,)
        tangents: Sequence[Any] = [None] * len(results)
        if moves:
            if hasattr(outside, "saved_for_forward"):
                outside._saved = outside.saved_for_forward
                outside._versions = tuple([0 if t is None else t._version for t in outside._saved])
            found = cls.jvp(outside, *[d.tangent if isinstance(d, Dual) else None for d in data])
            tangents = found if isinstance(found, tuple) else (found,)
    made = [wrap(Dual(level, r, t)) if isinstance(r, Tensor) else r for r, t in zip(results, tangents, strict=True)]
    given = tuple(made) if several else made[0]
    if cls.setup_context is not Function.setup_context:
        cls.setup_context(ctx, tuple(args), given)
    elif local.mode.grad and any(isinstance(a, Tensor) and a._requires_grad for a in args):
        with no_grad():
            cls.forward(ctx, *args, **kwargs)  # for what it saves
    return given


class _AllSamples(Function):
    """A user's function for all samples at once, as it is one level further out."""

    @staticmethod
    def forward(
        ctx: Any, level: BatchLevel, cls: type[Function], inner: Context, args: Sequence[Any], kwargs: dict[str, Any],
        *parts: Any,
    ) -> Any:  # fmt: skip
        """Whether there are several results, and the results."""
        ctx.of = level, cls, inner, args
        with _inside(level), no_grad():
            if cls.setup_context is not Function.setup_context:
                out = cls.forward(*args, **kwargs)
                cls.setup_context(inner, tuple(args), out)
            else:
                out = cls.forward(inner, *args, **kwargs)
        results = out if isinstance(out, tuple) else (out,)
        return isinstance(out, tuple), *[_whole(level, t) if isinstance(t, Tensor) else t for t in results]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The user's, for all samples; what is the same for all gets the sum."""
        level, cls, inner, args = ctx.of
        with _inside(level):
            seeds = [None if g is None else wrap(Batched(level, g, True)) for g in grads[1:]]
            out = cls.backward(inner, *seeds)
        given = out if isinstance(out, tuple) else (out,)
        found = [
            None if g is None else _gathered(level, level.data_of(a), level.data_of(g))
            for a, g in zip(args, given, strict=False)
        ]
        return *[None] * 5, *found


def _whole(level: BatchLevel, t: Tensor) -> Tensor:
    """All samples of a result, their axis in front."""
    data = level.data_of(t)
    if data.batched:
        return data.physical
    with Outward(level):
        return data.physical.expand(level.size, *t.shape).clone()  # type: ignore[attr-defined, no-any-return]


def _gathered(level: BatchLevel, of: Batched, gradient: Batched) -> Tensor:
    """The gradient of an argument's part."""
    part: Any = gradient.physical
    if of.batched and not gradient.batched:
        return part.expand(level.size, *part.shape)  # type: ignore[no-any-return]
    if gradient.batched and not of.batched:
        return part.sum(0)  # type: ignore[no-any-return]
    return part if of.batched else part * level.size  # type: ignore[no-any-return]


Level.apply_function = apply_at
