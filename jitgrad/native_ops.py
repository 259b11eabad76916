"""Eager ops on small tensors as native functions, once they have been called often: see `codegen.cpu.eager_op`.

`fast_path` asks for them, and says in Python what they do: both leave the same tensors and nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from jitgrad.ir.config import config
from jitgrad.ir.dtypes import float32
from jitgrad.ir.op import Op, Pointwise

from . import hot_path
from .backend import eager_ops
from .mode import Mode
from .object_layout import class_above_offset, slot_offset
from .tape import Storage, TapeNode, next_seq
from .tensor import Tensor

__all__ = ["NOTHING", "native_op", "pays"]

NOTHING = (None, None, None)  # what a node of two operands saves that saves nothing
_NOTHING_OF_ONE = (None, None)
_CLEARED = ("_node", "_storage", "_view", "_grad", "_hooks")
_PAYS = 4  # times as many calls as captured ones need once code was generated, because less is saved by each
_ABSENT = ("hooks", "versions", "location")
_NODE = ("op", "edges", "kept", "types", "saved", "owners", "versions", "seq")


class _Calls:
    """How many calls there have been of all ops, in round numbers."""

    total: ClassVar[int] = 0


def pays() -> bool:
    """Whether ops are worth making native; asked at every `hot_path.CALLS`th call of one that is not.

    They share their code, so that what counts is how often all of them have been called.
    """
    _Calls.total += hot_path.CALLS
    return config.compile and _Calls.total >= max(hot_path.calls_needed(), _PAYS * hot_path.CALLS)


def native_op(
    op: Op, numpy: Any, arity: int, limit: int, kept: Sequence[tuple[bool, ...]] | None, integers: bool
) -> Any:
    """The function `(mode, *operands)` of an op on up to `limit` elements; None from it is for what it does not take.

    `kept`: what is saved, of (first operand, second operand, result), where the first operand leads to a gradient,
    where the second does, and where both do; without it, what has to be recorded is not taken. `integers`: whether
    tensors of int64 are taken, too.
    """
    masks = [*(kept or ()), NOTHING, NOTHING, NOTHING][:3]
    own: dict[str, Any] = {"op": op, "numpy": numpy, "result_dtype": _result_dtype(op, arity)}
    own["nothing"] = NOTHING if arity > 1 else _NOTHING_OF_ONE
    own["integers"] = np.dtype(np.int64) if integers else None
    numbers = {"limit": limit, "is_differentiable": int(op.differentiable), "is_recorded": int(kept is not None)}
    for k, mask in enumerate(masks, start=1):
        own[f"kept_{k}"] = mask
        numbers[f"bits_{k}"] = sum([1 << i for i, x in enumerate(mask) if x])
    return eager_ops().eager_op(op, arity, _layout(), {**_objects(), **own}, numbers)


def _result_dtype(op: Op, arity: int) -> Any:
    """NumPy's dtype of the results of an elementwise op, if that is not the operands'."""
    found = op.result_dtype(*[float32] * arity) if isinstance(op, Pointwise) else float32
    return None if found is float32 else found.np


@functools.cache
def _layout() -> Any:
    """Where tensors, nodes, storages and modes hold what native code reads and writes."""
    slots = {name: slot_offset(TapeNode, name) for name in _NODE}
    slots |= {name: slot_offset(Storage, name) for name in ("views", "keepers")}
    slots |= {name: slot_offset(Mode, name) for name in ("tracer", "watches", "grad")}
    slots |= {name: slot_offset(Tensor, f"_{name}") for name in ("data", "index", "requires_grad", "storage")}
    return eager_ops().Layout(
        made_by=slot_offset(Tensor, "_node"), version=slot_offset(Storage, "_version"), base=class_above_offset(),
        cleared=tuple([slot_offset(Tensor, name) for name in _CLEARED]),
        absent=tuple([slot_offset(TapeNode, name) for name in _ABSENT]), **slots,
    )  # fmt: skip


def _counter() -> Any:
    """What gives nodes their numbers."""
    return getattr(next_seq, "__self__")  # noqa: B009  # of a method, but typed as a function


@functools.cache
def _objects() -> dict[str, Any]:
    """What native code compares with, and makes things of."""
    return {
        "tensor": Tensor, "node": TapeNode, "storage": Storage, "counter": _counter(),
        "ndarray": np.ndarray, "float": float, "int": int, "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
        "none": None, "false": False, "true": True, "zero": 0, "empty": (), "asarray": np.asarray, "shape": "shape",
    }  # fmt: skip
