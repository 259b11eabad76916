"""Jacobians for `gradcheck`: by finite differences, by backward and by forward mode, all in one layout.

A table is an array of [parts of the input, its elements, parts of the output, its elements]; complex tensors have two
parts, real and imaginary. So a complex function is checked as the real one that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import on_host
from ..func.forward import jvp
from ..tensor import Tensor
from . import api
from .grad_mode import no_grad

Table = np.ndarray[Any, Any]


def as_tuple(x: Any) -> tuple[Any, ...]:
    """The tensors of a result or an argument."""
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def parts(x: Any) -> int:
    """How many real numbers an element has."""
    return 2 if x.dtype.is_complex else 1


def numbers(t: Tensor) -> np.ndarray[Any, Any]:
    """A copy of the values, [parts, elements] in double precision."""
    array = np.array(on_host(t.detach()._data)).reshape(-1)  # type: ignore[attr-defined]
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag]).astype(np.float64)
    return array.astype(np.float64)[None]


def numerical(f: Callable[..., Any], inputs: Sequence[Any], x: Any, eps: float) -> list[Table]:
    """The tables of all results with respect to the input `x`, by central differences; `x` is changed on the way."""
    if x.numel() == 0:
        return [empty_table(x, r) for r in as_tuple(f(*inputs)) if isinstance(r, Tensor)]
    columns: list[list[list[Any]]] = []
    for part in range(parts(x)):
        columns.append([])
        for i in range(x.numel()):
            step = eps * (1j if part else 1)
            columns[part].append(_difference(f, inputs, x, i, step, eps))
    return _by_result(columns)


def _difference(f: Callable[..., Any], inputs: Sequence[Any], x: Any, i: int, step: Any, eps: float) -> list[Any]:
    above, below = _moved(f, inputs, x, i, step), _moved(f, inputs, x, i, -step)
    return [(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)]


def _moved(f: Callable[..., Any], inputs: Sequence[Any], x: Any, i: int, step: Any) -> list[Any]:
    """The results where element `i` of `x` is greater by `step`."""
    view = x.detach()
    at = np.unravel_index(i, tuple(x.shape)) if x.ndim else ()
    before = view[at].clone()
    with no_grad():
        view[at] = before + step
    try:
        return [numbers(r) for r in as_tuple(f(*inputs)) if isinstance(r, Tensor)]
    finally:
        with no_grad():
            view[at] = before


def along(f: Callable[..., Any], inputs: Sequence[Any], x: Any, direction: Any, eps: float) -> list[Any]:
    """The derivatives of all results along a direction of the input `x`, by central differences."""
    view = x.detach()
    before = view.clone()
    found = []
    for sign in (1, -1):
        with no_grad():
            view.copy_(before + sign * eps * direction)
        found.append([numbers(r) for r in as_tuple(f(*inputs)) if isinstance(r, Tensor)])
    with no_grad():
        view.copy_(before)
    return [(a - b) / (2 * eps) for a, b in zip(*found, strict=True)]


def by_backward(out: Any, inputs: Sequence[Any]) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """For each part and element of a result: the gradients of that number with respect to `inputs`."""
    for part in range(parts(out)):
        for k in range(out.numel()):
            seed = out.new_zeros(out.shape)
            seed[np.unravel_index(k, tuple(out.shape)) if out.ndim else ()] = 1j if part else 1
            yield part, k, api.grad(out, inputs, seed, retain_graph=True, allow_unused=True)


def empty_table(x: Any, out: Any) -> Table:
    """A table of zeros."""
    return np.zeros((parts(x), x.numel(), parts(out), out.numel()))


def by_forward(f: Callable[..., Any], inputs: Sequence[Any], at: int) -> list[Table]:
    """The tables of all results with respect to `inputs[at]`, by forward mode."""
    x = inputs[at]
    if x.numel() == 0:
        return [empty_table(x, r) for r in as_tuple(f(*inputs)) if isinstance(r, Tensor)]
    constants = [t.detach() if isinstance(t, Tensor) else t for t in inputs]  # type: ignore[attr-defined]

    def of_one(t: Tensor) -> Any:
        return as_tuple(f(*constants[:at], t, *constants[at + 1 :]))

    columns: list[list[list[Any]]] = []
    for part in range(parts(x)):
        columns.append([])
        for i in range(x.numel()):
            tangent = x.detach().new_zeros(x.shape)
            tangent[np.unravel_index(i, tuple(x.shape)) if x.ndim else ()] = 1j if part else 1
            _, found = jvp(of_one, (x.detach(),), (tangent,))
            columns[part].append([numbers(r) for r in found])
    return _by_result(columns)


def _by_result(columns: list[list[list[Any]]]) -> list[Table]:
    """Tables from what is known by part and element of the input, and by result."""
    return [np.array([[c[r] for c in by_part] for by_part in columns]) for r in range(len(columns[0][0]))]
