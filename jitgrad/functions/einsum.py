"""`einsum`: sums of products written with one letter per axis."""

from __future__ import annotations

import functools
import math
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError, ShapeError
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.shape import Permute, Reshape
from jitgrad.ir.ops.slicing import Diagonal

from ..dispatch import apply
from ..errors import located
from ..promotion import result_dtype
from ..tensor import Tensor
from .pointwise import convert, expand
from .registry import public

Labels = tuple[str, ...]


@public(method=False)
def einsum(*args: Any) -> Tensor:
    """Products of the operands' elements, summed over the letters that do not appear behind the arrow.

    Called as `einsum(equation, *operands)`, or with a list of numbers from 0 to 51 behind each operand and for the
    result in place of letters. Without an arrow the result has the letters that appear once, in alphabetical order.
    `...` stands for the axes that have no letter; they broadcast. Pairs of operands become matrix products, in the
    order that opt_einsum finds cheapest.

    >>> import jitgrad as jg
    >>> jg.einsum("bij,bjk->bik", jg.ones(2, 3, 4), jg.ones(2, 4, 5)).shape
    jitgrad.Size([2, 3, 5])
    >>> jg.einsum(jg.tensor([1, 2]), [0], jg.tensor([3, 4]), [1], [0, 1])
    tensor([[3, 4],
            [6, 8]])
    """
    equation, tensors = _arguments(args)
    inputs, output = _parse(equation, tensors)
    dtype = result_dtype(*tensors)
    if dtype.kind in ("int", "bool") and _sums_alone(inputs, output):
        dtype = dtypes.int64
    terms = [_diagonal(convert(t, dtype), labels) for t, labels in zip(tensors, inputs, strict=True)]
    sizes = _check_lengths(equation, terms)
    for pair in _order(tuple(labels for _, labels in terms), output, tuple(sorted(sizes.items()))):
        chosen = [terms.pop(i) for i in sorted(pair, reverse=True)][::-1]
        later = {x for _, rest in terms for x in rest} | set(output)
        joined = chosen[0]
        for other in chosen[1:]:
            joined = _contract(*joined, *other, later)
        terms.append(joined)
    current, labels = _summed_out(*terms[0], set(output))
    perm = tuple(labels.index(x) for x in output)
    return current if perm == tuple(range(len(perm))) else apply(Permute(perm), current)


def _sums_alone(inputs: Sequence[Labels], output: Labels) -> bool:
    """Whether an operand is summed over a letter of its own, which of integers gives int64."""
    counts = Counter(x for labels in inputs for x in set(labels))
    return any(n == 1 and x not in output for x, n in counts.items())


def _arguments(args: tuple[Any, ...]) -> tuple[str, Sequence[Tensor]]:
    """The equation and the operands, of either form of call."""
    if args and isinstance(args[0], str):
        equation, rest = args[0], args[1:]
    else:
        equation, rest = _equation_of_lists(args)
    tensors: Sequence[Tensor] = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
    if not tensors:
        raise located(ArgumentError("einsum(): must provide at least one operand"))
    if not all(isinstance(t, Tensor) for t in tensors):
        raise located(ArgumentTypeError("einsum: an equation (a string) and tensors are needed"))
    return equation, tensors


def _equation_of_lists(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """`einsum(x, [0, 1], y, [1, ...], [0])` with letters."""
    if len(args) < 2:
        raise located(
            ArgumentError("einsum(): must specify the equation string and at least one operand, or at least one "
                          "operand and its subscripts list")
        )  # fmt: skip
    paired = len(args) // 2 * 2
    terms = [_letters(x) for x in args[1:paired:2]]
    result = f"->{_letters(args[-1])}" if len(args) % 2 else ""
    return ",".join(terms) + result, args[0:paired:2]


def _letters(numbers: Any) -> str:
    if not isinstance(numbers, (list, tuple)):
        raise located(
            ArgumentTypeError(f"einsum: an equation (a string) or lists of numbers are needed, not {numbers!r}")
        )
    if any(n is not Ellipsis and not 0 <= n < 52 for n in numbers):
        raise located(OperationError(f"einsum: not within the valid range [0, 52): {list(numbers)}"))
    return "".join("..." if n is Ellipsis else string.ascii_letters[(n + 26) % 52] for n in numbers)


@functools.lru_cache(1024)
def _order(
    inputs: tuple[Labels, ...], output: Labels, sizes: tuple[tuple[str, int], ...]
) -> tuple[tuple[int, ...], ...]:
    """Which terms to contract, step by step; the result of a step becomes the last term."""
    if len(inputs) < 3:
        return ((0, 1),) if len(inputs) == 2 else ()
    import opt_einsum

    known = dict(sizes)
    symbol = {x: opt_einsum.get_symbol(i) for i, x in enumerate(known)}
    terms = ["".join(symbol[x] for x in labels) for labels in inputs]
    equation = f"{','.join(terms)}->{''.join(symbol[x] for x in output)}"
    shapes = [tuple(known[x] for x in labels) for labels in inputs]
    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True)
    return tuple(tuple(step) for step in path if len(step) > 1)


def _parse(equation: str, tensors: Sequence[Tensor]) -> tuple[list[Labels], Labels]:
    """Labels of each operand's axes and of the result's; axes under `...` are numbered from the end."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        raise located(OperationError(f"einsum: {equation!r} names {len(parts)} operands, not {len(tensors)}"))
    inputs = [_labels(equation, part, t) for part, t in zip(parts, tensors, strict=True)]
    hidden = max((sum(x.isdigit() for x in labels) for labels in inputs), default=0)
    ellipsis = tuple(str(i) for i in reversed(range(hidden)))
    if arrow:
        head, dots, tail = right.partition("...")
        output = (*head, *(ellipsis if dots else ()), *tail)
    else:
        counts = Counter(x for part in parts for x in part.replace("...", ""))
        output = (*ellipsis, *sorted(x for x, n in counts.items() if n == 1))
    known = {x for labels in inputs for x in labels}
    for x in output:
        if x not in known or output.count(x) > 1:
            raise located(
                OperationError(f"einsum: in {equation!r} the result's {x!r} is not an operand's letter, or repeated")
            )
    return inputs, output


def _labels(equation: str, part: str, t: Tensor) -> Labels:
    head, dots, tail = part.partition("...")
    named = head + tail
    if not all(x.isalpha() for x in named):
        raise located(OperationError(f"einsum: {part!r} in {equation!r} has characters that are not letters"))
    hidden = t.ndim - len(named)
    if hidden < 0 or (hidden and not dots):
        raise located(
            ShapeError(f"einsum: {part!r} in {equation!r} names {len(named)} axes of an operand with {t.ndim}")
        )
    return (*head, *(str(i) for i in reversed(range(hidden))), *tail)


def _diagonal(t: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """A letter that an operand has twice means the diagonal of those axes."""
    for x in dict.fromkeys(labels):
        while labels.count(x) > 1:
            first = labels.index(x)
            second = labels.index(x, first + 1)
            if t.shape[first] != t.shape[second]:
                raise located(ShapeError(f"einsum: axes named {x!r} differ in {t.type_}"))
            t = apply(Diagonal(0, first, second), t)
            labels = (*(y for i, y in enumerate(labels) if i not in (first, second)), x)
    return t, labels


def _check_lengths(equation: str, terms: Sequence[tuple[Tensor, Labels]]) -> dict[str, int]:
    """The lengths of letters; axes of one letter are equally long, or 1."""
    lengths: dict[str, int] = {}
    for t, labels in terms:
        for x, n in zip(labels, t.shape, strict=True):
            have = lengths.setdefault(x, n)
            if have == 1:
                lengths[x] = n
            elif n not in (1, have):
                types = "   ".join(str(t.type_) for t, _ in terms)
                raise located(
                    ShapeError(f"einsum: {equation!r}: axes named {x!r} have lengths {have} and {n}\n  {types}")
                )
    return lengths


def _summed_out(t: Tensor, labels: Labels, kept: set[str]) -> tuple[Tensor, Labels]:
    axes = tuple(i for i, x in enumerate(labels) if x not in kept)
    if not axes:
        return t, labels
    return apply(Sum(axes, False), t), tuple(x for x in labels if x in kept)


def _contract(a: Tensor, mine: Labels, b: Tensor, theirs: Labels, later: set[str]) -> tuple[Tensor, Labels]:
    """The product of two operands, summed over the letters that nothing later uses."""
    a, mine = _summed_out(a, mine, later | set(theirs))
    b, theirs = _summed_out(b, theirs, later | set(mine))
    sizes = dict.fromkeys((*mine, *theirs), 1)
    for labels, t in ((mine, a), (theirs, b)):
        for x, n in zip(labels, t.shape, strict=True):
            if n != 1:
                sizes[x] = n
    batch = tuple(x for x in mine if x in theirs and x in later)
    inside = tuple(x for x in mine if x in theirs and x not in later)
    rows = tuple(x for x in mine if x not in theirs)
    columns = tuple(x for x in theirs if x not in mine)
    left = _arranged(a, mine, (batch, rows, inside), sizes)
    right = _arranged(b, theirs, (batch, inside, columns), sizes)
    out = apply(MatMul(), left, right)
    labels = (*batch, *rows, *columns)
    return apply(Reshape(tuple(sizes[x] for x in labels)), out), labels


def _arranged(t: Tensor, labels: Labels, groups: tuple[Labels, ...], sizes: dict[str, int]) -> Tensor:
    """`t` with its axes in groups, each of them joined to one axis."""
    order = tuple(x for group in groups for x in group)
    perm = tuple(labels.index(x) for x in order)
    if perm != tuple(range(len(perm))):
        t = apply(Permute(perm), t)
    t = expand(t, tuple(sizes[x] for x in order))
    return apply(Reshape(tuple(math.prod(sizes[x] for x in group) for group in groups)), t)
