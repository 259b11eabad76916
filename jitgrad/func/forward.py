"""`jvp` and `linearize`: forward mode."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgrad.ir.errors import AutogradError

from .. import pytree
from ..errors import located
from ..tensor import Tensor
from .compiled import of_compiled
from .dual import Dual, DualLevel
from .gradients import check_tensors, vjp


def jvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """What `func` gives for `primals`, and the product of its Jacobian there with `tangents`.

    `tangents` has the structure of `primals`, and shapes and dtypes of its tensors. With `strict`, a result that does
    not depend on the primals is an error. With `has_aux`, `func` gives a pair, and the second is the third result.

    >>> import jitgrad as jg
    >>> jg.func.jvp(jg.sin, (jg.tensor(0.0),), (jg.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    compiled = of_compiled(func, functools.partial(_of_pairs, strict=strict, has_aux=has_aux), "jvp", strict, has_aux)
    if compiled is not None:
        return compiled(primals, tangents)  # type: ignore[no-any-return]
    leaves, structure, moved = _pairs(primals, tangents)
    level = DualLevel()
    inside = [level.dual(x, t) if isinstance(x, Tensor) else x for x, t in zip(leaves, moved, strict=True)]
    with level:
        out = func(*pytree.unflatten(structure, inside))
    aux: Any = None
    if has_aux:
        if not (isinstance(out, tuple) and len(out) == 2):
            raise located(
                AutogradError(
                    "jvp(f, primals, tangents): output of function f should be a tuple: (output, aux) if has_aux is "
                    "True"
                )
            )
        out, aux = out
    results, shape = pytree.flatten(out)
    check_tensors("jvp(f, primals, tangents)", results)
    parts = [level.data_of(t) for t in results]
    if strict and any(p.tangent is None for p in parts):
        raise located(
            AutogradError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                "allowed with strict=True."
            )
        )
    value = pytree.unflatten(shape, [p.primal for p in parts])
    product = pytree.unflatten(shape, [_tangent(p) for p in parts])
    return (value, product, pytree.map_leaves(lambda x: _primal(level, x), aux)) if has_aux else (value, product)


def _of_pairs(func: Callable[..., Any], strict: bool, has_aux: bool) -> Callable[..., Any]:
    """`jvp` of a function, as a function of primals and tangents."""

    @functools.wraps(func, updated=())
    def transformed(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, ...]:
        return jvp(func, primals, tangents, strict=strict, has_aux=has_aux)

    return transformed


def _tangent(data: Dual) -> Tensor:
    if data.tangent is not None:
        return data.tangent
    return data.primal.new_zeros(tuple(data.primal.shape))  # type: ignore[attr-defined, no-any-return]


def _primal(level: DualLevel, x: Any) -> Any:
    return level.data_of(x).primal if isinstance(x, Tensor) else x


def _pairs(primals: Any, tangents: Any) -> tuple[list[Any], Any, list[Any]]:
    """The leaves of the primals, their structure, and the tangents; raises unless they fit."""
    if not isinstance(primals, tuple):
        raise located(
            AutogradError(
                "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call "
                "f(*primals)."
            )
        )
    leaves, structure = pytree.flatten(primals)
    moved, other = pytree.flatten(tangents)
    if structure != other:
        raise located(
            AutogradError(
                "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For "
                "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
                f"{structure} and tangents with structure {other}"
            )
        )
    for x, t in zip(leaves, moved, strict=True):
        check_tangent(x, t)
    return leaves, structure, moved


def check_tangent(primal: Any, tangent: Any) -> None:
    """Raise unless the one can be the tangent of the other."""
    for x in (primal, tangent):
        if not isinstance(x, Tensor):
            raise located(AutogradError(f"jvp(f, primals, tangents): expected only tensors, got type {type(x)}"))
    if primal.shape != tangent.shape:
        raise located(
            AutogradError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size "
                f"{list(tangent.shape)}."
            )
        )
    if primal.dtype is not tangent.dtype or not primal.dtype.is_differentiable:
        raise located(
            AutogradError(
                f"a tangent must have the floating point or complex dtype of its primal: {primal.dtype.name} and "
                f"{tangent.dtype.name}"
            )
        )


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """What `func` gives for `primals`, and its linear approximation there: a function from tangents to tangents.

    `func` runs once. The function is the transpose of its vjp.

    >>> import jitgrad as jg
    >>> value, push = jg.func.linearize(lambda x: x * x, jg.tensor([1.0, 2.0]))
    >>> push(jg.ones(2))
    tensor([2., 4.])
    """
    value, pull = vjp(func, *primals)
    results, shape = pytree.flatten(value)
    seeds = pytree.unflatten(shape, [t.new_zeros(tuple(t.shape)) for t in results])
    _, back = vjp(lambda c: pull(c, create_graph=True), seeds)
    structure = pytree.flatten(primals)[1]

    def push(*tangents: Any) -> Any:
        _pairs(primals, tangents)
        return back(pytree.unflatten(structure, pytree.flatten(tangents)[0]))[0]

    return value, push


__all__ = ["check_tangent", "jvp", "linearize"]
