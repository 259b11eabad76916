"""Sequences of different lengths in one tensor: padded, or packed without padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.ir.dtypes import int64
from jitgrad.ir.errors import ArgumentError, OperationError

from ...creation import as_tensor, full, tensor
from ...errors import located
from ...functions.joining import cat, stack
from ...tensor import Tensor, read_array


class PackedSequence(NamedTuple):
    """Sequences without padding: all first items, then all second ones, and so on, longest sequence first.

    `batch_sizes[t]` is how many sequences have an item `t`. `sorted_indices` brought the sequences into order,
    `unsorted_indices` brings them back.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the items converted or moved, as by `Tensor.to`."""
        return self._replace(data=self.data.to(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self._replace(data=self.data.cpu())

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On a CUDA device."""
        return self._replace(data=self.data.cuda(*args, **kwargs))

    def double(self) -> PackedSequence:
        """In float64."""
        return self._replace(data=self.data.double())

    def float(self) -> PackedSequence:
        """In float32."""
        return self._replace(data=self.data.float())

    def half(self) -> PackedSequence:
        """In float16."""
        return self._replace(data=self.data.half())

    def long(self) -> PackedSequence:
        """In int64."""
        return self._replace(data=self.data.long())

    def int(self) -> PackedSequence:
        """In int32."""
        return self._replace(data=self.data.int())

    def short(self) -> PackedSequence:
        """In int16."""
        return self._replace(data=self.data.short())

    def char(self) -> PackedSequence:
        """In int8."""
        return self._replace(data=self.data.char())

    def byte(self) -> PackedSequence:
        """In uint8."""
        return self._replace(data=self.data.byte())

    def pin_memory(self) -> PackedSequence:
        """With the items in page-locked memory, where there is a CUDA device."""
        return self._replace(data=self.data.pin_memory())

    def is_pinned(self) -> bool:
        """Whether the items are in page-locked memory."""
        return bool(self.data.is_pinned())

    @property
    def is_cuda(self) -> bool:
        """Whether the items are on a CUDA device."""
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`.

    >>> import jitgrad as jg
    >>> invert_permutation(jg.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()  # type: ignore[attr-defined, no-any-return]


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:  # fmt: skip
    """Pack `input` [t, n, ...] (or [n, t, ...] if `batch_first`), of whose sequences `lengths` items are meant.

    Unless `enforce_sorted`, sequences may come in any order of lengths.

    >>> import jitgrad as jg
    >>> packed = pack_padded_sequence(jg.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    >>> packed.data, packed.batch_sizes
    (tensor([1, 3, 2]), tensor([2, 1]))
    """
    counts = np.array(read_array(lengths) if isinstance(lengths, Tensor) else lengths, np.int64)
    x: Any = input.transpose(0, 1) if batch_first else input  # type: ignore[attr-defined]
    if counts.shape != (x.shape[1],):
        raise located(
            OperationError(
                f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={x.shape[1]})"
            )
        )
    if (counts <= 0).any():
        raise located(
            OperationError(
                "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
            )
        )
    if counts.max() > x.shape[0]:
        raise located(
            OperationError(f"Expected lengths of at most {x.shape[0]}, the padded length, but got {counts.max()}")
        )
    order = unorder = None
    if not enforce_sorted:
        by_length = np.argsort(-counts, kind="stable")
        order, unorder = tensor(by_length, dtype=int64), tensor(np.argsort(by_length), dtype=int64)
        counts = counts[by_length]
        x = x.index_select(1, order)
    elif (np.diff(counts) > 0).any():
        raise located(
            OperationError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement."
            )
        )
    sizes = (np.arange(counts.max())[:, None] < counts).sum(1)
    data = cat([x[t, :n] for t, n in enumerate(sizes.tolist())])
    return PackedSequence(data, tensor(sizes, dtype=int64), order, unorder)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The sequences padded to the longest, or to `total_length`, and their lengths."""
    sizes = read_array(sequence.batch_sizes).tolist()
    if total_length is not None and total_length < len(sizes):
        raise located(
            ArgumentError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {len(sizes)}"
            )
        )
    data, start, steps = sequence.data, 0, []
    shape = tuple(data.shape[1:])
    for n in sizes:
        step = data[start : start + n]
        start += n
        if n < sizes[0]:
            step = cat([step, full((sizes[0] - n, *shape), padding_value, dtype=data.dtype, device=data.device)])
        steps.append(step)
    for _ in range(len(steps), total_length or 0):
        steps.append(full((sizes[0], *shape), padding_value, dtype=data.dtype, device=data.device))
    padded: Any = stack(steps)
    lengths = (np.array(sizes)[:, None] > np.arange(sizes[0])).sum(0)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[read_array(sequence.unsorted_indices)]
    return (padded.transpose(0, 1) if batch_first else padded), tensor(lengths, dtype=int64)


def pad_sequence(
    sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Tensors [t, ...] of different lengths as one: [longest, n, ...], or [n, longest, ...] if `batch_first`.

    >>> import jitgrad as jg
    >>> pad_sequence([jg.tensor([1, 2]), jg.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if padding_side not in ("left", "right"):
        raise located(ArgumentError(f"Expected padding_side to be 'left' or 'right', not {padding_side!r}"))
    longest = max(len(s) for s in sequences)
    rows = []
    for s in sequences:
        if len(s) < longest:
            shape = (longest - len(s), *s.shape[1:])
            padding = full(shape, padding_value, dtype=s.dtype, device=s.device)
            s = cat([s, padding] if padding_side == "right" else [padding, s])
        rows.append(s)
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor, of these lengths."""
    x: Any = padded_sequences if batch_first else padded_sequences.transpose(0, 1)  # type: ignore[attr-defined]
    counts = read_array(as_tensor(lengths)).tolist()
    return [x[i, :n] for i, n in enumerate(counts)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors [t, ...] of different lengths."""
    lengths = [len(s) for s in sequences]  # type: ignore[arg-type]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The tensors that were packed."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
