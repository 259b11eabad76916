"""Looking up rows of a table by integer, one by one or in bags, and marking integers in rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from jitgrad.ir.dtypes import int32, int64
from jitgrad.ir.errors import (
    ArgumentError,
    DTypeError,
    OperationError,
    PreconditionError,
    ShapeError,
    UnsupportedError,
)
from jitgrad.ir.ops.check import CheckBetween
from jitgrad.ir.ops.comparison import Eq
from jitgrad.ir.ops.creation import Iota
from jitgrad.ir.ops.history import WithHistory
from jitgrad.ir.ops.indexing import IndexSelect
from jitgrad.ir.ops.select import Where

from ...aliasing import write
from ...autograd.grad_mode import no_grad
from ...dispatch import apply, constant
from ...errors import located
from ...functions.comparison import choose
from ...functions.gathering import index_add
from ...functions.pointwise import check_tensor, convert, expand, filled
from ...functions.registry import public
from ...functions.searching import searchsorted
from ...hot_path import hot
from ...linalg.older import norm
from ...tensor import Tensor, read_array
from .arguments import checked, reshaped


@hot
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` [n, d] that the integers `input` [...] name, as [..., d].

    Row `padding_idx` gets no gradient. Rows whose `norm_type`-norm is above `max_norm` are first scaled down to it,
    in place. `scale_grad_by_freq` divides gradients by how often the row is named. `sparse` changes nothing:
    gradients are dense. (Called with a table of floats first, as `embedding(weight, input)`, it warns, as PyTorch's
    `embedding_bag` does.)

    >>> import jitgrad as jg
    >>> jg.nn.functional.embedding(jg.tensor([1, 0]), jg.tensor([[1.0], [2.0]]))
    tensor([[2.],
            [1.]])
    """
    index, table = _checked("embedding", input, weight)
    if table.ndim != 2:
        raise located(ShapeError(f"'weight' must be 2-D, but got {list(table.shape)}"))
    flat = reshaped(index, (index.type_.numel,))
    if padding_idx is not None:
        padding_idx = _row(padding_idx, table)
    if max_norm is not None:
        _limit(table, flat, max_norm, norm_type)
    rows = _rows(table, flat, padding_idx, scale_grad_by_freq)
    return reshaped(rows, (*index.shape, table.shape[1]))


def _checked(name: str, input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The indices and the table."""
    index, table = check_tensor(input, name), check_tensor(weight, name)
    if index.dtype not in (int32, int64):
        raise located(
            DTypeError(
                f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but "
                f"got {index.dtype.name} instead (while checking arguments for {name})"
            )
        )
    return index, table


def _row(padding_idx: int, table: Tensor) -> int:
    count = table.shape[0]
    if not -count <= padding_idx < count:
        raise located(PreconditionError("Padding_idx must be within num_embeddings"))
    return padding_idx % count


def _limit(table: Any, flat: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale down, in place, the rows that are named and longer than `max_norm`."""
    with no_grad():
        lengths: Any = norm(table, float(norm_type), 1, keepdim=True)
        named = filled((table.shape[0], 1), table.dtype, 0).index_fill(0, flat.long(), 1)  # type: ignore[attr-defined]
        is_long = (named != 0) & (lengths > max_norm)
        write(table, choose("embedding", is_long, table * (max_norm / (lengths + 1e-7)), table), "embedding_renorm_")


def _rows(table: Any, flat: Any, padding_idx: int | None, by_frequency: bool) -> Tensor:
    """The rows named, [count, d]; what their gradient is changes nothing else."""
    rows: Any = apply(IndexSelect(0), table, flat)
    if by_frequency and table.requires_grad:
        ones = filled((flat.shape[0],), table.dtype, 1)
        counts: Any = index_add(filled((table.shape[0],), table.dtype, 0), 0, flat, ones)
        scaled = rows / reshaped(apply(IndexSelect(0), counts, flat), (flat.shape[0], 1))
        rows = apply(WithHistory(), rows.detach(), scaled)
    if padding_idx is not None:
        shape = tuple(rows.shape)
        rows = apply(Where(), expand(reshaped(_equal_to(flat, padding_idx), (shape[0], 1)), shape), rows.detach(), rows)
    return rows  # type: ignore[no-any-return]


def _equal_to(flat: Tensor, number: int) -> Tensor:
    return apply(Eq(), flat, filled(tuple(flat.shape), flat.dtype, number))


@public("embedding", method=False)
def _embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """`nn.functional.embedding`, the table first; a negative `padding_idx` is none."""
    row = padding_idx if padding_idx >= 0 else None
    return embedding(indices, weight, row, None, 2.0, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or max, by `mode`, of the rows of `weight` [n, d] that each bag of integers names: [bags, d].

    `input` is [bags, length], or [count] with the `offsets` at which bags start; with `include_last_offset` the last
    one is where the last bag ends. Integers equal to `padding_idx` count for nothing; a bag of none gives zeros.
    `per_sample_weights`, of the input's shape, multiply the rows (sums only). For others see `embedding`.

    >>> import jitgrad as jg
    >>> table = jg.tensor([[1.0], [2.0], [6.0]])
    >>> jg.nn.functional.embedding_bag(jg.tensor([0, 2, 1]), table, jg.tensor([0, 2]))
    tensor([[3.5000],
            [2.0000]])
    """
    if check_tensor(input, "embedding_bag").dtype.is_differentiable and weight.dtype in (int32, int64):
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        input, weight = weight, input
    index, table = _checked("embedding_bag", input, weight)
    _check_bag(index, table, offsets, mode, per_sample_weights, scale_grad_by_freq, sparse)
    flat = reshaped(index, (index.type_.numel,))
    if max_norm is not None:
        _limit(table, flat, max_norm, norm_type)
    if padding_idx is not None:
        padding_idx = _row(padding_idx, table)
    rows: Any = _rows(table, flat, padding_idx, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * reshaped(per_sample_weights, (flat.shape[0], 1))
    counted = None if padding_idx is None else ~_equal_to(flat, padding_idx)  # type: ignore[operator]
    if index.ndim == 2:
        bags, length = index.shape
        counted = None if counted is None else reshaped(counted, (bags, length, 1))
        return _reduced_bags(reshaped(rows, (bags, length, table.shape[1])), counted, mode)
    assert offsets is not None
    bags = offsets.shape[0] - bool(include_last_offset)
    if bags:
        checked(CheckBetween("embedding_bag", "offsets[0]", 0, 0), offsets[:1])  # type: ignore[index]
    bag = searchsorted(offsets, constant(np.arange(flat.shape[0]), flat), right=True) - 1  # type: ignore[operator]
    return _reduced_by_bag(rows, bag, bags, counted, mode)


def _check_bag(
    index: Tensor, table: Tensor, offsets: Tensor | None, mode: str, weights: Tensor | None, by_frequency: bool,
    sparse: bool,
) -> None:  # fmt: skip
    if weights is not None and weights.shape != index.shape:
        raise located(
            ArgumentError(
                f"embedding_bag: If per_sample_weights ({list(weights.shape)}) is not None, then it must have the "
                f"same shape as the input ({list(index.shape)})"
            )
        )
    if table.ndim != 2:
        raise located(ArgumentError(f"weight has to be a 2D Tensor, but got Tensor of dimension {table.ndim}"))
    if index.ndim not in (1, 2):
        raise located(ArgumentError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {index.ndim}"))
    if index.ndim == 2 and offsets is not None:
        raise located(
            ArgumentError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                          "length sequences.")
        )  # fmt: skip
    if index.ndim == 1 and (offsets is None or offsets.ndim != 1):
        raise located(ArgumentError("offsets has to be a 1D Tensor"))
    if mode not in ("sum", "mean", "max"):
        raise located(ArgumentError("mode has to be one of sum, mean or max"))
    if mode == "max" and (by_frequency or sparse):
        raise located(
            ArgumentError("max mode does not support scaling the gradient by the frequency or sparse weights")
        )
    if weights is not None and mode != "sum":
        raise located(UnsupportedError(f"embedding_bag: per_sample_weights needs mode='sum' (got {mode!r})"))


def _reduced_bags(rows: Any, counted: Any, mode: str) -> Tensor:
    """The rows of bags of equal length [bags, length, d], of which the `counted` ones count."""
    if mode == "max":
        if not rows.shape[1]:
            return rows.sum(1)  # type: ignore[no-any-return]
        if counted is None:
            return rows.max(1).values  # type: ignore[no-any-return]
        lowest = choose("embedding_bag", counted, rows, float("-inf")).max(1).values  # type: ignore[attr-defined]
        return choose("embedding_bag", counted.any(1), lowest, 0)
    total = rows.sum(1) if counted is None else choose("embedding_bag", counted, rows, 0).sum(1)  # type: ignore[attr-defined]
    if mode == "sum":
        return total  # type: ignore[no-any-return]
    return total / (max(rows.shape[1], 1) if counted is None else counted.sum(1).clamp_min(1))  # type: ignore[no-any-return]


def _reduced_by_bag(rows: Any, bag: Any, bags: int, counted: Any, mode: str) -> Tensor:
    """The rows [count, d], each of which belongs to the bag of its number."""
    count, width = rows.shape
    if counted is not None:
        # What counts not goes to a bag of its own, behind the others.
        bag = choose("embedding_bag", counted, bag, bags)
    if mode == "max":
        place = expand(reshaped(bag, (count, 1)), (count, width))
        base = filled((bags + 1, width), rows.dtype, 0)
        return base.scatter_reduce(0, place, rows, "amax", include_self=False)[:bags]  # type: ignore[attr-defined, no-any-return]
    total: Any = index_add(filled((bags + 1, width), rows.dtype, 0), 0, bag, rows)[:bags]  # type: ignore[index]
    if mode == "sum":
        return total  # type: ignore[no-any-return]
    ones = filled((count,), rows.dtype, 1)
    sizes: Any = index_add(filled((bags + 1,), rows.dtype, 0), 0, bag, ones)
    return total / reshaped(sizes.clamp_min(1)[:bags], (bags, 1))  # type: ignore[no-any-return]


@hot
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each integer's place among `num_classes`, which is the last axis, and 0 elsewhere.

    >>> import jitgrad as jg
    >>> jg.nn.functional.one_hot(jg.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    index = check_tensor(tensor, "one_hot")
    if index.dtype is not int64:
        raise located(DTypeError("one_hot is only applicable to index tensor of type LongTensor."))
    if num_classes == -1:
        if not index.type_.numel:
            raise located(OperationError("Can not infer total number of classes from empty tensor."))
        num_classes = int(read_array(index).max()) + 1
    elif num_classes < 1 and (index.type_.numel or num_classes < 0):
        raise located(OperationError("num_classes should be positive"))
    if index.type_.numel:
        checked(CheckBetween("one_hot", "the class values", 0, num_classes - 1), index)
    shape = (*index.shape, num_classes)
    places = apply(Iota(shape, index.ndim, int64))
    return convert(apply(Eq(), expand(reshaped(index, (*index.shape, 1)), shape), places), int64)
