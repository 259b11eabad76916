"""What emitted code for eager ops has to know: where objects hold what, and a table of addresses, its cells."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from . import llvm_ir as ir
from .cells import I64, cell
from .object_code import ObjectCode

# Objects that all ops share,
_SHARED: Final = (
    "tensor", "node", "storage", "counter", "ndarray", "float", "int", "f32", "f64", "none", "false", "true",
    "zero", "empty", "asarray", "shape",
)  # fmt: skip
# those of an op: what a node saves that saves nothing, NumPy's function, the dtype of its results or None for that of
# the operands, that of integers or None if it doesn't take any, and what is saved where the first operand, the second,
# or both lead to a gradient;
_OF_OP: Final = ("op", "nothing", "numpy", "result_dtype", "integers", "kept_1", "kept_2", "kept_3")
# the same as bits, whether gradients flow through it and whether this code records it, how many elements it takes, and
# the addresses of its loops or 0;
_NUMBERS: Final = (
    "bits_1", "bits_2", "bits_3", "is_differentiable", "is_recorded", "limit", "loop_f32", "loop_f64",
)  # fmt: skip
# functions of Python and NumPy.
_FUNCTIONS: Final = (
    "new_object", "new_array", "PyTuple_New", "PyList_New", "PyIter_Next", "PyObject_Vectorcall", "PyObject_GetAttr",
    "PyLong_AsDouble", "PyErr_Occurred", "PyErr_Clear", "Py_IncRef", "Py_DecRef",
)  # fmt: skip
_PLACES: Final = {name: k for k, name in enumerate((*_SHARED, *_OF_OP, *_NUMBERS, *_FUNCTIONS))}
_MOST_PLACES: Final = 16  # what is not used costs nothing
_NEW: Final = 65  # Py_tp_new
_NEW_ARRAY: Final = 94  # PyArray_NewFromDescr in the table of NumPy's functions


@dataclass(frozen=True, slots=True)
class Layout:
    """Where objects hold what, in bytes."""

    data: int  # of tensors
    made_by: int
    index: int
    requires_grad: int
    storage: int
    cleared: tuple[int, ...]  # slots that are None in a new tensor
    tracer: int  # of the thread's mode
    watches: int
    grad: int
    version: int  # of storages
    views: int
    keepers: int
    base: int  # of classes: the class above
    op: int  # of tape nodes
    edges: int
    kept: int
    types: int
    saved: int
    owners: int
    versions: int
    seq: int
    absent: tuple[int, ...]  # slots that are None in a new node


class Words(ObjectCode):
    """Code for objects with the cells, which stand at `cells`; made in a function's first block."""

    def __init__(self, b: ir.IRBuilder, cells: ir.Value, layout: Layout) -> None:
        self.cells = cells
        self.layout = layout
        self._places = [b.alloca(I64) for _ in range(_MOST_PLACES)]
        super().__init__(b, cell(b, cells, _PLACES["Py_IncRef"]))

    def __getitem__(self, name: str) -> ir.Value:
        """A cell."""
        return cell(self.b, self.cells, _PLACES[name])

    def saved(self, name: str, leading: ir.Value) -> ir.Value:
        """`kept` or `bits` where these operands lead to a gradient: 1, 2, or 3 for both."""
        b = self.b
        place = b.add(I64(_PLACES[f"{name}_1"]), b.sub(leading, I64(1)))
        return cell(b, self.cells, place)

    def place(self) -> ir.Value:
        """A word on the stack for this code alone."""
        return self._places.pop()

    def is_a(self, x: ir.Value, name: str) -> ir.Value:
        """Whether it is the object in a cell."""
        return self.same(x, self[name])

    def none(self) -> ir.Value:
        """None, with one reference more."""
        return self.hold(self["none"])


@functools.cache
def _function_addresses() -> tuple[int, ...]:
    """Those of `_FUNCTIONS`."""
    api = ctypes.pythonapi
    slot, pointer = api.PyType_GetSlot, api.PyCapsule_GetPointer
    slot.restype = pointer.restype = ctypes.c_void_p
    slot.argtypes, pointer.argtypes = [ctypes.py_object, ctypes.c_int], [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    new_array = ctypes.c_size_t.from_address(table + _NEW_ARRAY * 8).value
    named = [ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS[2:]]
    return slot(object, _NEW), new_array, *named


class Cells(np.ndarray[Any, Any]):
    """A table, with the objects whose addresses are in it."""

    alive: Any

    @staticmethod
    def of(objects: Mapping[str, Any], numbers: Mapping[str, int]) -> Cells:
        """The table of what the names of cells stand for."""
        addresses = [id(objects[name]) for name in (*_SHARED, *_OF_OP)]
        table = [*addresses, *[numbers[name] for name in _NUMBERS], *_function_addresses()]
        cells = np.array(table, np.int64).view(Cells)
        cells.alive = dict(objects)
        return cells
