"""`jacrev`, `jacfwd` and `hessian`: whole Jacobians, by products with all unit vectors at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError

from .. import pytree
from ..functions.registry import FUNCTIONS
from ..tensor import Tensor
from .batch import Randomness
from .compiled import of_compiled
from .forward import jvp
from .gradients import Argnums, check_tensors, selected, vjp
from .vmap import vmap


def unit_vectors(like: Sequence[Tensor]) -> list[Tensor]:
    """For tensors of `n` elements altogether, `n` stacked samples of each: all zeros but for one element.

    >>> import jitgrad as jg
    >>> [t.shape for t in unit_vectors([jg.ones(2), jg.ones(2, 2)])]
    [jitgrad.Size([6, 2]), jitgrad.Size([6, 2, 2])]
    """
    counts = [t.type_.numel for t in like]
    made = []
    for i, t in enumerate(like):
        before, after = sum(counts[:i]), sum(counts[i + 1 :])
        parts = [FUNCTIONS["zeros"]((n, counts[i]), dtype=t.dtype, device=t.device) for n in (before, after)]
        eye = FUNCTIONS["eye"](counts[i], dtype=t.dtype, device=t.device)
        rows = [p for p in (parts[0], eye, parts[1]) if p.shape[0]]
        whole = eye if len(rows) <= 1 else FUNCTIONS["cat"](rows)
        made.append(whole.reshape((sum(counts), *t.shape)))
    return made


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function giving the Jacobian of `func` for its arguments `argnums`, row by row: by reverse mode.

    For each tensor of the result and each of the arguments there is a tensor of shape `result.shape + argument.shape`,
    in the result's structure, and inside that in the argument's. `chunk_size` rows are computed at once (all if None).

    >>> import jitgrad as jg
    >>> jg.func.jacrev(jg.sin)(jg.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError("jacrev: `chunk_size` should be greater than 0.")
    again = functools.partial(jacrev, argnums=argnums, has_aux=has_aux, chunk_size=chunk_size)
    compiled = of_compiled(func, again, "jacrev", argnums, has_aux, chunk_size)
    if compiled is not None:
        return compiled

    @functools.wraps(func, updated=())
    def transformed(*args: Any, **kwargs: Any) -> Any:
        chosen, call = _of_selected(func, argnums, args, kwargs)
        value, pull, *aux = vjp(call, *chosen, has_aux=has_aux)
        results, shape = pytree.flatten(value)
        check_tensors("jacrev(f, *primals)", results)
        cotangents = pytree.unflatten(shape, unit_vectors(results))
        rows = vmap(pull, chunk_size=chunk_size)(cotangents)
        leaves, structure = pytree.flatten(rows if not isinstance(argnums, int) else rows[0])
        blocks = blocks_of(leaves, results, 0)
        jacobian = pytree.unflatten(shape, [pytree.unflatten(structure, block) for block in blocks])
        return (jacobian, aux[0]) if has_aux else jacobian

    return transformed


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """`jacrev`, column by column: by forward mode, which is faster for more results than arguments.

    >>> import jitgrad as jg
    >>> jg.func.jacfwd(jg.sin)(jg.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    again = functools.partial(jacfwd, argnums=argnums, has_aux=has_aux, randomness=randomness, chunk_size=chunk_size)
    compiled = of_compiled(func, again, "jacfwd", argnums, has_aux, randomness, chunk_size)
    if compiled is not None:
        return compiled

    @functools.wraps(func, updated=())
    def transformed(*args: Any, **kwargs: Any) -> Any:
        chosen, call = _of_selected(func, argnums, args, kwargs)
        inputs, structure = pytree.flatten(chosen)
        check_tensors("jacfwd(f, *primals)", inputs)
        tangents = pytree.unflatten(structure, unit_vectors(inputs))

        def push(moved: Any) -> Any:
            _, product, *aux = jvp(call, chosen, moved, has_aux=has_aux)
            return (product, aux[0]) if has_aux else (product, None)

        columns, aux = vmap(push, out_dims=(0, None), randomness=randomness, chunk_size=chunk_size)(tangents)
        leaves, shape = pytree.flatten(columns)
        blocks = blocks_of([FUNCTIONS["movedim"](t, 0, -1) for t in leaves], inputs, -1)
        per_result = zip(*blocks, strict=True)
        inner = pytree.flatten(chosen[0] if isinstance(argnums, int) else chosen)[1]
        jacobian = pytree.unflatten(shape, [pytree.unflatten(inner, list(block)) for block in per_result])
        return (jacobian, aux) if has_aux else jacobian

    return transformed


def _of_selected(
    func: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], Callable[..., Any]]:
    """The chosen arguments, and `func` as a function of them."""
    nums = selected(argnums, args)

    def call(*chosen: Any) -> Any:
        full = list(args)
        for n, x in zip(nums, chosen, strict=True):
            full[n] = x
        return func(*full, **kwargs)

    return tuple([args[n] for n in nums]), call


def blocks_of(stacked: Sequence[Any], parts: Sequence[Tensor], dim: int) -> list[list[Tensor]]:
    """For each part, its rows (or columns, for `dim` -1) of all the stacked tensors, in its shape."""
    counts = [t.type_.numel for t in parts]
    out = []
    for i, t in enumerate(parts):
        block = []
        for s in stacked:
            piece = FUNCTIONS["narrow"](s, dim, sum(counts[:i]), counts[i])
            shape = (*t.shape, *s.shape[1:]) if dim == 0 else (*s.shape[:-1], *t.shape)
            block.append(piece.reshape(shape))
        out.append(block)
    return out


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function giving the second derivatives of `func`: forward over reverse mode.

    >>> import jitgrad as jg
    >>> jg.func.hessian(lambda x: (x ** 3).sum())(jg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


__all__ = ["hessian", "jacfwd", "jacrev", "unit_vectors"]
