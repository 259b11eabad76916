"""Eager ops on a CUDA device: a graph of one node, compiled once per op, types and layouts, and run there.

Views need nothing but other strides. What repeats along an axis, or lies in memory in another order of axes, is told
the graph (which fuses it), so that no contiguous copy is made of it. Numbers may come from the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import DeviceError
from jitgrad.ir.graph import Graph, Value
from jitgrad.ir.interpreter import evaluate
from jitgrad.ir.op import Op, Pointwise, View
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.creation import Full
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.types import Device, TensorType

from .arrays import Data, device_of, on_device, on_host, seen_through
from .backend import DeviceArray, compile_graph
from .memo import Memo
from .tensor import tensor_type

_known: Memo[Any] = Memo(limit=8192)
_PLAIN = "plain"
_NUMBER = "number"


def common_device(name: str, data: Sequence[Data], strict: bool = True) -> Device:
    """The device of an op's operands. On the host there may be numbers: 0-d arrays, and such that repeat one.

    Without `strict` there may be other arrays too: pointwise ops also get what a function has made of numbers, and
    `functions.pointwise` has looked at the user's tensors.
    """
    found: Device | None = None
    for x in data:
        if x.__class__ is DeviceArray:
            if found is not None and found != x.device:
                raise _mixed(name, found, x.device)
            found = x.device
    assert found is not None
    for x in data:
        if strict and x.__class__ is not DeviceArray and not _is_number(x):
            raise _mixed(name, found, device_of(x))
    return found


def check_devices(name: str, data: Sequence[Data]) -> None:
    """Raise if some of these are on a device and others, which are no numbers, are not there."""
    for x in data:
        if x.__class__ is DeviceArray:
            common_device(name, data)
            return


def _is_number(x: Any) -> bool:
    return x.ndim == 0 or not any(x.strides)


def _mixed(name: str, first: Device, second: Device) -> DeviceError:
    return DeviceError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}! "
        f"(in {name})"
    )


def run_on_device(
    op: Op, data: Sequence[Data], operands: tuple[TensorType, ...], device: Device | None = None
) -> Sequence[Data]:
    """The results of `op` on the device of its operands, or on `device`, to which operands are moved."""
    if device is None:
        device = common_device(op.name, data, strict=not isinstance(op, Pointwise))
    if isinstance(op, View) and len(data) == 1 and data[0].__class__ is DeviceArray:
        shown = seen_through(op, data[0])
        if shown is not None:
            return [shown]
    for i, check in op.value_checks(*operands):
        check.reference(on_host(data[i]))
    given = [_given(x, device) for x in data]
    key = (op, operands, device, tuple([how for _, how in given]))
    if not op.random and _NUMBER in key[3]:
        run = _with_numbers(key, given)
        if run is not None:
            return run([x for x, how in given if how is not _NUMBER])  # type: ignore[no-any-return]
    run = _known.get(key)
    if run is None:
        run = _known.add(key, _compiled(op, operands, given, device))
    return run([x for x, _ in given])  # type: ignore[no-any-return]


def _with_numbers(key: Any, given: Sequence[tuple[Data, Any]]) -> Any:
    """An executable that holds the numbers, so that they need not be copied to the device, when they come again."""
    exact = (key, tuple([x.tobytes() for x, how in given if how is _NUMBER]))
    found = _known.get(exact)
    if found is None:
        _known.add(exact, False)
    elif found is False:
        op, operands, device, _ = key
        found = _known.put(exact, _compiled(op, operands, given, device, True))
    return found or None


def run_graph_on_device(graph: Graph, inputs: Sequence[Data], device: Device) -> list[Data]:
    """The outputs of `graph`, op by op on `device`; what a graph is run by the first time it comes."""

    def apply(op: Op, data: Sequence[Data]) -> Sequence[Data]:
        if isinstance(op, Full):
            return [np.broadcast_to(np.asarray(op.value, op.dtype.np), op.shape)]
        return run_on_device(op, data, tuple([tensor_type(x.shape, x.dtype) for x in data]), device)

    return [on_device(x, device) for x in evaluate(graph, inputs, apply)]


def _given(x: Data, device: Device) -> tuple[Data, Any]:
    """What the graph is given for an operand, and how it makes the operand of it."""
    if x.__class__ is not DeviceArray:
        if _is_number(x) and x.size:
            return np.array(x[(0,) * x.ndim]), _NUMBER
        return on_device(x, device), _PLAIN
    if x.device != device:
        return on_device(x, device), _PLAIN
    return (x, _PLAIN) if x.is_contiguous else _dense(x)


def _dense(x: DeviceArray) -> tuple[DeviceArray, Any]:
    """The memory behind a permuted or repeated array, with the order of its axes; itself if there are gaps in it."""
    repeated = [s == 0 and n > 1 for n, s in zip(x.shape, x.strides, strict=True)]
    kept = [1 if r else n for n, r in zip(x.shape, repeated, strict=True)]
    order = sorted(range(x.ndim), key=lambda a: (kept[a] == 1, -x.strides[a]))
    shape = tuple([kept[a] for a in order])
    strides = tuple([x.strides[a] for a in order])
    base = x.seen(shape, strides, 0, x.dtype)
    if not base.is_contiguous:
        return x, _PLAIN
    back = tuple([order.index(a) for a in range(x.ndim)])
    return base, (shape, back)


def _compiled(
    op: Op, operands: tuple[TensorType, ...], given: Sequence[tuple[Data, Any]], device: Device, fixed: bool = False
) -> Any:
    """The graph of `op`; with `fixed`, numbers are part of it. Its kernels are the same for all of them."""
    b = Builder()
    values = [
        b(Full(t.shape, t.dtype, x.astype(t.dtype.np).item())) if fixed and how is _NUMBER else _operand(b, t, how)
        for t, (x, how) in zip(operands, given, strict=True)
    ]
    return compile_graph(b.build(b.emit(op, *values)), name=op.name, device=device)


def _operand(b: Builder, type: TensorType, how: Any) -> Value:
    if how is _PLAIN:
        return b.input(type)
    if how is _NUMBER:
        number = b.input(type.with_shape(()))
        return number if type.shape == () else b(BroadcastTo(type.shape), number)
    shape, back = how
    value = b.input(type.with_shape(shape))
    if back != tuple(range(len(back))):
        value = b(Permute(back), value)
    return value if value.shape == type.shape else b(BroadcastTo(type.shape), value)
