"""The binary interface of compiled kernels: one signature, one way of packing scalars.

    void kernel(i8 **buffers, i64 *slots, i8 *params, i64 begin, i64 end)

`buffers` holds one address per non-"local" `Buffer`, in the order of `Kernel.buffers`. "in" buffers may
overlap one another; a buffer that is written overlaps no other of the call. `slots` holds the int64 slots.
`params` is packed by `pack_params`. `[begin, end)` is the part of the outermost parallel loop to run; a kernel
without one ignores it. A kernel keeps no state and may run in any thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgrad.ir.dtypes import DType

PARAM_CELL: Final = 8
SIGNATURE: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


def pack_params(dtypes: Sequence[DType], values: Sequence[bool | int | float]) -> np.ndarray[Any, Any]:
    """The `params` block: cell `i` is 8 bytes and starts with `values[i]` in `dtypes[i]`'s own layout.

    >>> from jitgrad.ir import dtypes
    >>> pack_params([dtypes.float32, dtypes.bool_], [1.0, True]).view("u1").tolist()
    [0, 0, 128, 63, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    """
    block = np.zeros(len(values), np.int64)
    for i, (dtype, value) in enumerate(zip(dtypes, values, strict=True)):
        block[i : i + 1].view(dtype.np)[0] = value
    return block


def call_kernel(
    address: int,
    buffers: Sequence[np.ndarray[Any, Any]],
    slots: Sequence[int] = (),
    params: np.ndarray[Any, Any] | None = None,
    begin: int = 0,
    end: int = 0,
) -> None:
    """Run one kernel on NumPy arrays, one array per non-local buffer; for tests and dumps, not for speed."""
    pointers = np.array([b.ctypes.data for b in buffers] or [0], np.int64)
    numbers = np.array(list(slots) or [0], np.int64)
    cells = np.zeros(1, np.int64) if params is None else params
    SIGNATURE(address)(pointers.ctypes.data, numbers.ctypes.data, cells.ctypes.data, begin, end)
