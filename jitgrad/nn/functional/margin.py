"""Losses that ask for a margin: between scores, or between distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, ShapeError, operand_lines
from jitgrad.ir.ops.activation import LogSigmoid, Softplus
from jitgrad.ir.ops.check import CheckBetween
from jitgrad.ir.ops.comparison import Eq
from jitgrad.ir.ops.creation import Iota

from ...autocasting import autocasts
from ...dispatch import apply, beside
from ...errors import located
from ...functions.comparison import choose
from ...functions.gathering import gather
from ...functions.pointwise import check_tensor, expand, pointwise
from ...functions.reductions import any as any_of
from ...functions.reductions import cumsum
from ...hot_path import hot
from ...tensor import Tensor
from .arguments import checked, reduced, reduction_name, reshaped
from .distance import pairwise_distance


def _positive(x: Any) -> Any:
    """The larger of `x` and 0."""
    return x.clamp_min(0)


@hot
@autocasts("hinge_embedding_loss")
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """x where the target is 1, and max(0, margin - x) where it is -1.

    >>> import jitgrad as jg
    >>> jg.nn.functional.hinge_embedding_loss(jg.tensor([0.5, 0.25]), jg.tensor([1, -1]), reduction="none")
    tensor([0.5000, 0.7500])
    """
    how = reduction_name("hinge_embedding_loss", reduction, size_average, reduce)
    x: Any = check_tensor(input, "hinge_embedding_loss")
    t: Any = target
    far = choose("hinge_embedding_loss", t != 1, _positive(margin - x), 0)
    near = choose("hinge_embedding_loss", t != -1, x, 0)
    return reduced(far + near, how)  # type: ignore[operator]


@hot
@autocasts("margin_ranking_loss")
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin - target (input1 - input2)): the first is to be larger where the target is 1, smaller for -1.

    >>> import jitgrad as jg
    >>> jg.nn.functional.margin_ranking_loss(jg.tensor([2.0]), jg.tensor([3.0]), jg.tensor([1]))
    tensor(1.)
    """
    how = reduction_name("margin_ranking_loss", reduction, size_average, reduce)
    a: Any = check_tensor(input1, "margin_ranking_loss")
    b, t = input2, target
    if not a.ndim == b.ndim == t.ndim:
        raise located(
            ShapeError(
                "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
                f"{list(a.shape)}, input2: {list(b.shape)}, target: {list(t.shape)} "
            )
        )
    return reduced(_positive(-t * (a - b) + margin), how)  # type: ignore[operator]


@hot
@autocasts("cosine_embedding_loss")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos of the angle between rows whose target is 1, and max(0, cos - margin) for those with -1.

    >>> import jitgrad as jg
    >>> x = jg.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> jg.nn.functional.cosine_embedding_loss(x, x, jg.tensor([1, -1]), reduction="none")
    tensor([0., 1.])
    """
    how = reduction_name("cosine_embedding_loss", reduction, size_average, reduce)
    a: Any = check_tensor(input1, "cosine_embedding_loss")
    b: Any = check_tensor(input2, "cosine_embedding_loss")
    t: Any = target
    if t.ndim > 1:
        raise located(ShapeError("0D or 1D target tensor expected, multi-target not supported"))
    if a.ndim != t.ndim + 1 or b.ndim != t.ndim + 1:
        raise located(
            ShapeError(
                f"{t.ndim}D target tensor expects {t.ndim + 1}D input tensors, but found inputs with sizes "
                f"{list(a.shape)} and {list(b.shape)}."
            )
        )
    eps = 1e-12
    squares = ((a * a).sum(-1) + eps) * ((b * b).sum(-1) + eps)
    cosine: Any = (a * b).sum(-1) / squares.sqrt()
    near = choose("cosine_embedding_loss", t == 1, 1 - cosine, 0)
    far = choose("cosine_embedding_loss", t == -1, _positive(cosine - margin), 0)
    return reduced(near + far, how)  # type: ignore[operator]


@hot
@autocasts("soft_margin_loss")
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """log(1 + exp(-target x)), for targets 1 and -1.

    >>> import jitgrad as jg
    >>> jg.nn.functional.soft_margin_loss(jg.zeros(2), jg.tensor([1.0, -1.0]))
    tensor(0.6931)
    """
    how = reduction_name("soft_margin_loss", reduction, size_average, reduce)
    x: Any = check_tensor(input, "soft_margin_loss")
    return reduced(pointwise(Softplus(1.0, float("inf")), -target * x), how)  # type: ignore[operator]


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes (the last axis) of -(t log σ(x) + (1 - t) log σ(-x)), with a weight for each class.

    >>> import jitgrad as jg
    >>> jg.nn.functional.multilabel_soft_margin_loss(jg.zeros(1, 2), jg.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    how = reduction_name("multilabel_soft_margin_loss", reduction, size_average, reduce)
    x: Any = check_tensor(input, "multilabel_soft_margin_loss")
    t: Any = target
    loss: Any = -(t * pointwise(LogSigmoid(), x) + (1 - t) * pointwise(LogSigmoid(), -x))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / x.shape[-1], how)


@autocasts("multi_margin_loss")
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of max(0, margin - x[target] + x[class]) to the power `p`, the target's left out.

    Operands: scores [n, c] or [c], target classes [n] or []; `weight` is one number for each class.

    >>> import jitgrad as jg
    >>> jg.nn.functional.multi_margin_loss(jg.tensor([[0.0, 1.0]]), jg.tensor([0]))
    tensor(1.)
    """
    name = "multi_margin_loss"
    how = reduction_name(name, reduction, size_average, reduce)
    if p not in (1, 2):
        raise located(ArgumentError("only p == 1 and p == 2 supported"))
    x: Any = check_tensor(input, name)
    if weight is not None and weight.ndim != 1:
        raise located(ArgumentError("weight must be one-dimensional"))
    _check_scores(name, x)
    n, c = (1, x.shape[0] if x.ndim else 1) if x.ndim < 2 else tuple(x.shape)
    if target.ndim > 1 or target.type_.numel != n:
        raise located(ShapeError(f"inconsistent target size: {list(target.shape)}, expected [{n}]"))
    if weight is not None and weight.shape[0] != c:
        raise located(ShapeError(f"inconsistent weight size, expected {c} but got {list(weight.shape)}"))
    t = reshaped(checked(CheckBetween(name, "target", 0, c - 1), target), (n, 1))
    scores = reshaped(x, (n, c))
    excess: Any = _positive(margin - gather(scores, 1, t.long()) + scores)  # type: ignore[attr-defined, operator]
    if p == 2:
        excess = excess * excess
    if weight is not None:
        excess = excess * reshaped(gather(weight, 0, reshaped(t, (n,)).long()), (n, 1))  # type: ignore[attr-defined]
    others = expand(t, (n, c)) != beside(apply(Iota((n, c), 1, t.dtype)), t)
    loss = choose(name, others, excess, 0).sum(1) / c  # type: ignore[attr-defined]
    return reduced(reshaped(loss, tuple(x.shape[:-1])) if x.ndim < 2 else loss, how)


def _check_scores(name: str, x: Tensor) -> None:
    if x.ndim > 2 or (x.ndim and x.shape[-1] == 0):
        raise located(
            ShapeError(f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
                       f"{list(x.shape)}")
        )  # fmt: skip


@autocasts("multilabel_margin_loss")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of max(0, 1 - (x[j] - x[i])), summed over targets j and classes i that are none.

    Operands: scores [n, c] or [c], and as many target classes, of which those from the first -1 on count not.

    >>> import jitgrad as jg
    >>> x, target = jg.tensor([[0.1, 0.2, 0.4, 0.8]]), jg.tensor([[3, 0, -1, 1]])
    >>> jg.nn.functional.multilabel_margin_loss(x, target)
    tensor(0.8500)
    """
    name = "multilabel_margin_loss"
    how = reduction_name(name, reduction, size_average, reduce)
    x: Any = check_tensor(input, name)
    _check_scores(name, x)
    if target.shape != x.shape and not (x.ndim < 2 and target.type_.numel == x.type_.numel and target.ndim < 2):
        raise located(ShapeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(x.shape)}"))
    n, c = (1, x.shape[0] if x.ndim else 1) if x.ndim < 2 else tuple(x.shape)
    scores: Any = reshaped(x, (n, c))
    t: Any = reshaped(checked(CheckBetween(name, "target", -1, c - 1), target), (n, c))
    counts: Any = cumsum(t < 0, 1) == 0
    named: Any = choose(name, counts, t, 0).long()  # type: ignore[attr-defined]
    shape = (n, c, c)
    places = apply(Iota(shape, 2, dtypes.int64))
    is_target = any_of(apply(Eq(), expand(named.unsqueeze(2), shape), places) & counts.unsqueeze(2), 1)
    excess: Any = _positive(1 - gather(scores, 1, named).unsqueeze(2) + scores.unsqueeze(1))  # type: ignore[attr-defined]
    taken = counts.unsqueeze(2) & ~is_target.unsqueeze(1)  # type: ignore[attr-defined, operator]
    loss: Any = choose(name, taken, excess, 0).sum((1, 2)) / c  # type: ignore[attr-defined]
    return reduced(reshaped(loss, ()) if x.ndim < 2 else loss, how)


@hot
@autocasts("triplet_margin_loss")
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), d being the `p`-norm distance of rows.

    If `swap`, the smaller of d(anchor, negative) and d(positive, negative) is taken (Balntas et al. 2016).

    >>> import jitgrad as jg
    >>> a, n = jg.zeros(1, 2), jg.tensor([[0.0, 0.5]])
    >>> jg.nn.functional.triplet_margin_loss(a, a, n)
    tensor(0.5000)
    """
    how = reduction_name("triplet_margin_loss", reduction, size_average, reduce)
    return _triplet("triplet_margin_loss", anchor, positive, negative, margin, swap, how,
                    lambda x, y: pairwise_distance(x, y, p, eps))  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with a distance of one's own (`pairwise_distance` if none is given).

    >>> import jitgrad as jg
    >>> a, n = jg.zeros(1, 2), jg.tensor([[0.0, 0.5]])
    >>> far = lambda x, y: (x - y).abs().amax(-1)
    >>> jg.nn.functional.triplet_margin_with_distance_loss(a, a, n, distance_function=far)
    tensor(0.5000)
    """
    name = "triplet_margin_with_distance_loss"
    how = reduction_name(name, reduction, None, None)
    return _triplet(name, anchor, positive, negative, margin, swap, how, distance_function or pairwise_distance)


def _triplet(
    name: str, anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, swap: bool, reduction: str,
    distance: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:  # fmt: skip
    if margin <= 0:
        raise located(ArgumentError(f"margin must be greater than 0, got {margin}"))
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise located(
            ShapeError(
                f"{name}: The anchor, positive, and negative tensors are expected to have the same number of "
                f"dimensions, but got{operand_lines([anchor.type_, positive.type_, negative.type_])}"
            )
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))  # type: ignore[attr-defined]
    return reduced(_positive(margin + near - far), reduction)  # type: ignore[operator]
