"""Clipping the joint norm of many gradients as one native call.

What each gradient adds to the norm, the norm and the factor that follows from it, and the products are three stages of
one launch (`codegen/join.py`), made when gradients of the same types come again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir.config import config

from ...aliasing import storage_of
from ...autograd.grad_mode import no_grad
from ...backend import compile_graph, join
from ...compiler.memory import owner
from ...compiler.tracer import Tracer
from ...memo import Memo
from ...mode import local
from ...tensor import Tensor, wrap

_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
_ndarray = np.ndarray

_parts: Memo[Any] = Memo(limit=1024)
_launches: Memo[Any] = Memo(limit=64)


def clipped(grads: Sequence[Tensor], max_norm: float) -> Tensor | None:
    """Scale `grads` in place so that their joint 2-norm is at most `max_norm`; the norm before.

    None, with nothing done, where that is not one native call: at first sight, or for what is not plain memory.
    """
    mode = local.mode
    if mode.tracer is not None or mode.levels or mode.autocast is not None or mode.place is not None:
        return None
    arrays = [g._data for g in grads]
    if not config.compile or not _are_plain(arrays):
        return None
    key = tuple([x.shape for x in arrays]), arrays[0].dtype
    launch = _launches.get(key)
    if launch is None:
        _launches.add(key, False)
        return None
    if launch is False:
        launch = _launches.put(key, _launch(arrays))
    dtype = arrays[0].dtype
    total, count = np.empty((), dtype), len(arrays)
    parts = np.empty(count, dtype)
    given = [
        *arrays,
        parts,
        np.asarray(max_norm, dtype),
        total,
        np.empty((), dtype),
        *[parts[k, ...] for k in range(count)],
    ]
    launch(given)
    for g in grads:
        storage_of(g)._version += 1
    return wrap(total)


def _are_plain(arrays: Sequence[Any]) -> bool:
    """Whether they are arrays in host memory of one type that kernels have, to be written, none sharing memory."""
    if not arrays or arrays[0].__class__ is not _ndarray or arrays[0].dtype not in _TYPES:
        return False
    dtype = arrays[0].dtype
    for x in arrays:
        if x.__class__ is not _ndarray or x.dtype != dtype or not x.flags.c_contiguous or not x.flags.writeable:
            return False
    return len(set(map(owner, arrays))) == len(arrays)


def _launch(arrays: Sequence[Any]) -> Any:
    """The three stages on: gradients, parts of the norm, largest norm, norm, factor, places of the parts."""
    count, dtype = len(arrays), arrays[0].dtype
    parts, most, total, factor = range(count, count + 4)
    number = np.empty((), dtype)
    adds = [(_part(_square_sum, x), (k,), (factor + 1 + k,)) for k, x in enumerate(arrays)]
    middle = [(_part(_norm_and_factor, np.empty(count, dtype), number), (parts, most), (total, factor))]
    scaled = [(_part(_scaled, x, number), (k, factor), (None,)) for k, x in enumerate(arrays)]
    shapes = [*[x.shape for x in arrays], (count,), *[()] * (3 + count)]
    return join([adds, middle, scaled], [(shape, dtype) for shape in shapes])


def _square_sum(g: Any) -> tuple[Any, ...]:
    return ((g * g).sum(),)


def _norm_and_factor(parts: Any, max_norm: Any) -> tuple[Any, ...]:
    norm = parts.sum().sqrt()
    return norm, (max_norm / (norm + 1e-6)).clamp(max=1.0)


def _scaled(g: Any, factor: Any) -> tuple[Any, ...]:
    return (g * factor,)


def _part(function: Callable[..., tuple[Any, ...]], *examples: Any) -> Any:
    """A function of tensors as an executable; `_scaled` writes over its first operand."""
    key = (function, *[(x.shape, x.dtype) for x in examples])
    found = _parts.get(key)
    if found is not None:
        return found
    tensors = [wrap(x) for x in examples]
    tracer = Tracer(tensors, True, function.__name__)
    local.mode.tracer = tracer
    try:
        with no_grad():
            inputs = [tracer.value(t) for t in tensors]  # in this order
            outputs = [tracer.value(t) for t in function(*tensors)]
    finally:
        local.mode.tracer = None
        tracer.is_over = True
    assert inputs == tracer.builder.inputs
    aliases = {0: 0} if function is _scaled else None
    return _parts.add(key, compile_graph(tracer.builder.build(outputs), name=function.__name__, aliases=aliases))
