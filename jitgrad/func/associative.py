"""`associative_scan`: running combinations in a number of rounds that grows with the logarithm of the length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, OperationError

from .. import pytree
from ..errors import located
from ..functions.joining import cat, stack
from ..functions.registry import public
from ..functions.shape import movedim
from ..tensor import Tensor
from .vmap import vmap

Combine = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


@public(method=False)
def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int = 0, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """All running combinations of `xs` along `dim`: x0, x0∘x1, x0∘x1∘x2, ..., where ∘ is `combine_fn`, associative.

    `xs` is a tensor or a container of some. `combine_fn` gets many pairs at once, stacked along the first dimension,
    which is the same to it as one pair if it is pointwise; otherwise say `combine_mode="generic"`, and it is called
    under `vmap`. After Blelloch, "Prefix sums and their applications", 1990.

    >>> import jitgrad as jg
    >>> jg.associative_scan(lambda x, y: x * y, jg.arange(1, 6))
    tensor([  1,   2,   6,  24, 120])
    """
    leaves, structure = pytree.flatten(xs)
    if not callable(combine_fn) or not all(isinstance(x, Tensor) for x in leaves) or not leaves:
        raise located(ArgumentError("associative_scan: a function and at least one tensor are needed"))
    if combine_mode not in ("pointwise", "generic"):
        raise located(
            ArgumentError(f"associative_scan: combine_mode must be pointwise or generic, not {combine_mode!r}")
        )
    if not isinstance(dim, int) or any(not -x.ndim <= dim < x.ndim for x in leaves):
        raise located(ArgumentTypeError(f"associative_scan: xs have no dimension {dim!r}"))
    moved = [movedim(x, dim, 0) for x in leaves]
    if len({x.shape[0] for x in moved}) > 1:
        raise located(OperationError("associative_scan: xs differ in length along the dimension"))
    each = combine_fn if combine_mode == "pointwise" else vmap(combine_fn)

    def combine(a: Sequence[Any], b: Sequence[Any]) -> Sequence[Any]:
        found, kind = pytree.flatten(each(pytree.unflatten(structure, a), pytree.unflatten(structure, b)))
        if kind != structure:
            raise located(OperationError("associative_scan: combine_fn must give what it takes"))
        return found

    ordered = [x.flip(0) for x in moved] if reverse else moved
    found = _running(combine, ordered)
    found = [x.flip(0) for x in found] if reverse else found
    return pytree.unflatten(structure, [movedim(x, 0, dim) for x in found])


def _running(combine: Combine, xs: Sequence[Any]) -> list[Any]:
    """Pairs are combined, their running combinations found, and those in between by one more combination."""
    n = xs[0].shape[0]
    if n < 2:
        return list(xs)
    odd = _running(combine, combine([x[: n - 1 : 2] for x in xs], [x[1::2] for x in xs]))
    rest = [x[2::2] for x in xs]
    if n > 2:
        between = combine([y[: r.shape[0]] for y, r in zip(odd, rest, strict=True)], rest)
        even = [cat([x[:1], y]) for x, y in zip(xs, between, strict=True)]
    else:
        even = [x[:1] for x in xs]
    return [_interleaved(e, o) for e, o in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any) -> Any:
    count = odd.shape[0]
    pairs = stack([even[:count], odd], 1)
    pairs = pairs.reshape(2 * count, *odd.shape[1:])
    return pairs if even.shape[0] == count else cat([pairs, even[count:]])
