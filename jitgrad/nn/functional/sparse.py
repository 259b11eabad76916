"""Looking up rows of a table by integer, and marking integers in rows."""

from __future__ import annotations

from jitgrad.ir.dtypes import int64
from jitgrad.ir.errors import ArgumentError, DTypeError
from jitgrad.ir.ops.comparison import Eq
from jitgrad.ir.ops.creation import Iota
from jitgrad.ir.ops.indexing import IndexSelect
from jitgrad.ir.ops.select import Where

from ...dispatch import apply
from ...errors import located
from ...functions.pointwise import check_tensor, convert, expand, filled
from ...tensor import Tensor, to_array
from .arguments import reshaped


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` [n, d] that the integers `input` [...] name, as [..., d].

    Row `padding_idx` gets no gradient.

    >>> import jitgrad as jg
    >>> jg.nn.functional.embedding(jg.tensor([1, 0]), jg.tensor([[1.0], [2.0]]))
    tensor([[2.],
            [1.]])
    """
    index = check_tensor(input, "embedding")
    if index.dtype.kind != "int":
        raise located(DTypeError(f"embedding: expected integer indices, but got {index.dtype.name}"))
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise located(ArgumentError("embedding: max_norm, scale_grad_by_freq and sparse are not supported"))
    flat = reshaped(index, (index.type_.numel,))
    rows = apply(IndexSelect(0), weight, flat)
    if padding_idx is not None:
        count = weight.shape[0]
        if not -count <= padding_idx < count:
            raise located(ArgumentError("Padding_idx must be within num_embeddings"))
        is_padding = apply(Eq(), flat, filled(tuple(flat.shape), flat.dtype, padding_idx % count))
        shape = tuple(rows.shape)
        rows = apply(Where(), expand(reshaped(is_padding, (shape[0], 1)), shape), rows.detach(), rows)  # type: ignore[attr-defined]
    return reshaped(rows, (*index.shape, weight.shape[1]))


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
        num_classes = int(to_array(index).max()) + 1
    shape = (*index.shape, num_classes)
    places = apply(Iota(shape, index.ndim, int64))
    return convert(apply(Eq(), expand(reshaped(index, (*index.shape, 1)), shape), places), int64)
