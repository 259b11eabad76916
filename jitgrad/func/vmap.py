"""`vmap`: a function for one sample as a function for many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, DimError, OperationError

from .. import pytree
from ..errors import located
from ..functions.registry import FUNCTIONS
from ..tensor import Tensor, wrap
from .axes import moved_axis, spread
from .batch import Batched, BatchLevel, Randomness
from .compiled import of_compiled

Dims = Any  # an int, None, or containers of them


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: Randomness = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that applies `func` to every slice of its arguments along `in_dims`, all at once.

    Inside `func`, tensors have the shape of one slice. Ops are applied to all slices together, by their batching rules;
    an op without one goes through them one after the other (`jitgrad.func.one_by_one.counts` has which do).

    Args:
        func: takes tensors (containers of them too) and gives tensors.
        in_dims: the dim to go along, for each argument: an int, or a container like the positional arguments' (or
            like their outer part) of ints and None, which leaves an argument as it is. Keyword arguments are gone
            along at dim 0.
        out_dims: where that dim is in the results; None for a result that is the same for all slices.
        randomness: whether random functions may be called: "error", "same" (one draw for all), or "different".
        chunk_size: how many slices to take at once, for less memory.

    Raises `ValueError` for dims that do not fit the arguments, and `RuntimeError` where `func` asks for the value of
    a tensor that has one for each slice.

    >>> import jitgrad as jg
    >>> jg.vmap(jg.dot)(jg.ones(2, 3), jg.ones(2, 3))
    tensor([3., 3.])
    """
    _check_options(randomness, chunk_size)
    again = functools.partial(
        vmap, in_dims=in_dims, out_dims=out_dims, randomness=randomness, chunk_size=chunk_size
    )  # fmt: skip
    compiled = of_compiled(func, again, "vmap", in_dims, out_dims, randomness, chunk_size)
    if compiled is not None:
        return compiled
    name = getattr(func, "__name__", None) or type(func).__name__

    @functools.wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        size, leaves, dims, structure = _arguments(name, in_dims, args, kwargs)
        if chunk_size is None or chunk_size >= size:
            return _mapped(func, name, size, leaves, dims, structure, out_dims, randomness)
        pieces = []
        for start in range(0, size, chunk_size):
            part = [_piece(x, d, start, chunk_size) for x, d in zip(leaves, dims, strict=True)]
            count = min(chunk_size, size - start)
            pieces.append(_mapped(func, name, count, part, dims, structure, out_dims, randomness))
        return _joined(pieces, out_dims)

    return mapped


def _check_options(randomness: str, chunk_size: int | None) -> None:
    if randomness not in ("error", "different", "same"):
        raise OperationError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")


def _arguments(
    name: str, in_dims: Dims, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[int, list[Any], list[int | None], Any]:
    """The number of slices, and the arguments' leaves with their dims, from 0 on."""
    if not isinstance(in_dims, (int, list, tuple)):
        raise located(
            ArgumentError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially "
                f"nested) tuple matching the structure of inputs, got: {type(in_dims)}."
            )
        )
    if not args and not kwargs:
        raise located(
            ArgumentError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
                "over a function with no inputs. The latter is unsupported."
            )
        )
    leaves, structure = pytree.flatten((args, kwargs))
    given = spread(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
    if given is None:
        raise located(
            ArgumentError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of "
                f"`inputs`, which has {len(args)} positional arguments"
            )
        )
    given += [0] * (len(leaves) - len(given))
    dims = [_checked_dim(name, in_dims, x, d) for x, d in zip(leaves, given, strict=True)]
    sizes = [x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise located(ArgumentError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): no dim to go along is given"))
    if len(set(sizes)) > 1:
        raise located(
            ArgumentError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{sizes} for the mapped dimension"
            )
        )
    return sizes[0], leaves, dims, structure


def _checked_dim(name: str, in_dims: Dims, x: Any, dim: Any) -> int | None:
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim}"
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise located(ArgumentError(f"{where} for an input but in_dim must be either an integer dimension or None."))
    if not isinstance(x, Tensor):
        raise located(
            ArgumentError(
                f"{where} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, "
                "please use None as the respective in_dim"
            )
        )
    if not -x.ndim <= dim < x.ndim:
        raise located(
            ArgumentError(
                f"{where} for some input, but that input is a Tensor of dimensionality {x.ndim} so expected in_dim "
                f"to satisfy -{x.ndim} <= in_dim < {x.ndim}."
            )
        )
    return dim % x.ndim


def _mapped(
    func: Callable[..., Any], name: str, size: int, leaves: Sequence[Any], dims: Sequence[int | None], structure: Any,
    out_dims: Dims, randomness: Randomness,
) -> Any:  # fmt: skip
    """One call for all slices of these arguments."""
    level = BatchLevel(size, randomness)
    inside = [
        x if d is None else wrap(Batched(level, moved_axis(x, d, 0), True)) for x, d in zip(leaves, dims, strict=True)
    ]
    args, kwargs = pytree.unflatten(structure, inside)
    with level:
        out = func(*args, **kwargs)
    results, shape = pytree.flatten(out)
    wanted = spread(out_dims, out)
    if wanted is None:
        raise located(
            ArgumentError(
                f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
                f"`outputs`, of which there are {len(results)}"
            )
        )
    return pytree.unflatten(shape, [_result(name, level, x, d) for x, d in zip(results, wanted, strict=True)])


def _result(name: str, level: BatchLevel, x: Any, dim: int | None) -> Any:
    """A result as it is outside, its slices along `dim`."""
    if not isinstance(x, Tensor):
        if dim is None:
            return x
        raise located(
            ArgumentError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set "
                "out_dims= to None for output?"
            )
        )
    data = level.data_of(x)
    if dim is None:
        if data.batched:
            raise located(
                ArgumentError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
            )
        return data.physical
    whole: Any = data.physical
    if not data.batched:
        whole = whole.expand(level.size, *whole.shape)
    if not -whole.ndim <= dim < whole.ndim:
        raise located(
            DimError(
                f"Dimension out of range (expected to be in range of [{-whole.ndim}, {whole.ndim - 1}], but got {dim})"
            )
        )
    return moved_axis(whole, 0, dim % whole.ndim)


def _piece(x: Any, dim: int | None, start: int, size: int) -> Any:
    return x if dim is None else FUNCTIONS["narrow"](x, dim, start, min(size, x.shape[dim] - start))


def _joined(pieces: Sequence[Any], out_dims: Dims) -> Any:
    """The results of several calls, one after the other along their dims."""
    dims = spread(out_dims, pieces[0])
    assert dims is not None
    columns = zip(*[pytree.flatten(p)[0] for p in pieces], strict=True)
    joined = [
        column[0] if d is None else FUNCTIONS["cat"](list(column), d) for column, d in zip(columns, dims, strict=True)
    ]
    return pytree.unflatten(pytree.flatten(pieces[0])[1], joined)
