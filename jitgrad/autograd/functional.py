"""Functional transforms: `grad`, `value_and_grad`, `vjp`, `jvp`, `jacobian`, `hessian`.

They take and give functions or tensors, compose with each other and with `compile`, and leave `.grad` alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ir.errors import ArgumentError, AutogradError

from .. import pytree
from ..aliasing import alias
from ..functions.registry import FUNCTIONS
from ..mode import local
from ..tensor import Tensor
from . import api
from .grad_mode import enable_grad


def _inputs(tree: Any) -> tuple[Any, list[Tensor]]:
    """The tree with fresh differentiable aliases of its tensors, and those."""
    leaves, structure = pytree.flatten(tree)
    fresh: list[Tensor] = []
    for i, x in enumerate(leaves):
        if isinstance(x, Tensor) and x.dtype.is_differentiable:
            leaves[i] = _differentiable(x)
            fresh.append(leaves[i])
    return pytree.unflatten(structure, leaves), fresh


def _differentiable(x: Tensor) -> Tensor:
    if x._requires_grad and local.mode.grad:
        return x.view_as(x)  # type: ignore[attr-defined, no-any-return]
    return alias(x).requires_grad_()


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function giving `f`'s 0-d result and its gradient with respect to the arguments `argnums`.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.value_and_grad(lambda x: (x * x).sum())(jg.tensor([1.0, 2.0]))
    (tensor(5.), tensor([2., 4.]))
    """
    single = isinstance(argnums, int)
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(f)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        create = local.mode.grad and any(isinstance(x, Tensor) and x._requires_grad for x in pytree.flatten(args)[0])
        call = list(args)
        fresh = []
        with enable_grad():
            for n in nums:
                call[n], tensors = _inputs(args[n])
                fresh.append((pytree.flatten(call[n])[1], tensors))
            out = f(*call, **kwargs)
            value, aux = out if has_aux else (out, None)
            if not isinstance(value, Tensor) or value.type_.numel != 1:
                raise AutogradError("value_and_grad: the function must return a tensor of one element")
            flat = [t for _, ts in fresh for t in ts]
            grads = iter(api.grad(value, flat, create_graph=create, allow_unused=True, materialize_grads=True))
        trees = [pytree.unflatten(s, [next(grads) for _ in ts]) for s, ts in fresh]
        value = value if create else alias(value)
        result = trees[0] if single else tuple(trees)
        return ((value, aux), result) if has_aux else (value, result)

    return transformed


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function with a 0-d result.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.grad(lambda x: x ** 3)(jg.tensor(2.0))
    tensor(12.)
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return transformed


def vjp(f: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False) -> tuple[Any, Any]:
    """The results of `f`, and the product of the cotangent `v` with its Jacobian."""
    args, single = _arguments(inputs)
    with enable_grad():
        call, fresh = _inputs(args)
        out = f(*call)
        outs = list(out) if isinstance(out, tuple) else [out]
        seeds = None if v is None else list(v) if isinstance(v, tuple) else [v]
        grads = api.grad(outs, fresh, seeds, create_graph=create_graph, allow_unused=True, materialize_grads=True)
    result = out if create_graph else pytree.map_leaves(lambda t: alias(t) if isinstance(t, Tensor) else t, out)
    return result, grads[0] if single else grads


def jvp(f: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False) -> tuple[Any, Any]:
    """The results of `f`, and the product of its Jacobian with the tangent `v` (by differentiating the vjp)."""
    args, _ = _arguments(inputs)
    tangents = list(v) if isinstance(v, tuple) else [v]
    with enable_grad():
        call, fresh = _inputs(args)
        out = f(*call)
        outs = list(out) if isinstance(out, tuple) else [out]
        dummies = [o.new_zeros(o.shape).requires_grad_() for o in outs]  # type: ignore[attr-defined]
        back = api.grad(outs, fresh, dummies, create_graph=True, allow_unused=True, materialize_grads=True)
        pairs = [(g, t) for g, t in zip(back, tangents, strict=True) if g is not None and g._requires_grad]
        if pairs:
            products = api.grad(
                [g for g, _ in pairs], dummies, [t for _, t in pairs], create_graph=create_graph, allow_unused=True,
                materialize_grads=True,
            )  # fmt: skip
        else:
            products = tuple(o.new_zeros(o.shape) for o in outs)  # type: ignore[attr-defined]
    result = out if create_graph else pytree.map_leaves(lambda t: alias(t) if isinstance(t, Tensor) else t, out)
    return result, products if isinstance(out, tuple) else products[0]


def jacobian(f: Callable[..., Any], inputs: Any, create_graph: bool = False) -> Any:
    """The Jacobian, of shape `out.shape + in.shape` (nested tuples for several results or inputs).

    >>> import jitgrad as jg
    >>> jg.autograd.functional.jacobian(lambda x: x * x, jg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    args, single = _arguments(inputs)
    with enable_grad():
        call, fresh = _inputs(args)
        out = f(*call)
        outs = out if isinstance(out, tuple) else (out,)
        rows = tuple(_jacobian_of(o, fresh, create_graph) for o in outs)
    picked = tuple(r[0] if single else r for r in rows)
    return picked if isinstance(out, tuple) else picked[0]


def _jacobian_of(out: Tensor, inputs: Sequence[Tensor], create: bool) -> tuple[Tensor, ...]:
    columns: list[list[Any]] = [[] for _ in inputs]
    flat = out.reshape(-1)  # type: ignore[attr-defined]
    for i in range(flat.shape[0]):
        grads = api.grad(
            flat[i], inputs, retain_graph=True, create_graph=create, allow_unused=True, materialize_grads=True
        )
        for column, g in zip(columns, grads, strict=True):
            column.append(g)
    return tuple(
        FUNCTIONS["stack"](c).reshape(tuple(out.shape) + tuple(x.shape)) for c, x in zip(columns, inputs, strict=True)
    )


def hessian(f: Callable[..., Any], inputs: Any, create_graph: bool = False) -> Any:
    """The matrix of second derivatives of a function with a 0-d result.

    >>> import jitgrad as jg
    >>> jg.autograd.functional.hessian(lambda x: (x ** 3).sum(), jg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    def gradient(*args: Any) -> Any:
        value = f(*args)
        if value.type_.numel != 1:
            raise ArgumentError("hessian: the function must return a tensor of one element")
        grads = api.grad(value, args, create_graph=True, allow_unused=True, materialize_grads=True)
        return grads if len(args) > 1 else grads[0]

    return jacobian(gradient, inputs, create_graph)


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], bool]:
    return (tuple(inputs), False) if isinstance(inputs, (tuple, list)) else ((inputs,), True)
