"""The names that a pickle may use, and what they stand for: the allow-list. Every other name is refused."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType

from ..device import named_device
from ..nn.parameter import Buffer, Parameter
from ..tensor import Size, Tensor
from .errors import PthError
from .machine import Constructor

# PyTorch's classes for memory of one element type. Files name them; `torch.float32` and the like are names too.
STORAGES: dict[str, DType] = {
    "DoubleStorage": dtypes.float64, "FloatStorage": dtypes.float32, "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16, "LongStorage": dtypes.int64, "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_, "ComplexFloatStorage": dtypes.complex64, "ComplexDoubleStorage": dtypes.complex128,
}  # fmt: skip
UNTYPED = "UntypedStorage"  # memory without a type; the tensor says it
_OTHER_DTYPES = ("float8_", "complex32", "quint", "qint", "bits", "float4_")
_NUMERIC = "biufc"
_FACTORIES: dict[str, Any] = {"list": list, "dict": dict, "set": set, "int": int, "float": float}


class StorageType:
    """The class of a storage, as a pickle names it; `dtype` is None for untyped memory."""

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype


def _bytes(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"bytes encoded as {encoding}")
    return text.encode("latin-1")


def _byte_array(text: Any = b"", encoding: str = "latin-1") -> bytearray:
    return bytearray(_bytes(text, encoding) if isinstance(text, str) else _listed(bytes, text))


def _default_dict(factory: Any = None) -> defaultdict[Any, Any]:
    if factory is None:
        return defaultdict(None)
    if not isinstance(factory, Constructor) or factory.name not in _FACTORIES:
        raise PthError(f"load: the file holds a defaultdict that calls other than {', '.join(_FACTORIES)}")
    return defaultdict(_FACTORIES[factory.name])


def _listed(kind: type, x: Any) -> Any:
    """`x`, which must be of this type: other iterables may be longer than the memory."""
    if not isinstance(x, kind):
        raise ValueError(f"{type(x).__name__} where a {kind.__name__} belongs")
    return x


def _of_list(make: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda items=[]: make(_listed(list, items))


def _refused(name: str) -> Callable[..., Any]:
    def make(*_: Any) -> Any:
        raise PthError(f"load: the pickle in the file calls {name}, which is refused")

    return make


def _numpy_dtype(code: Any, *_: Any) -> np.dtype[Any]:
    if not isinstance(code, str):
        raise ValueError("a NumPy dtype without a name")
    found = np.dtype(code)
    if found.kind not in _NUMERIC or found.names is not None:
        raise PthError(f"load: the file holds a NumPy array of {found}, which is refused; numbers and bools are read")
    return found


def _numpy_scalar(dtype: Any, data: Any) -> Any:
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes) or len(data) != dtype.itemsize:
        raise ValueError("a NumPy scalar of the wrong size")
    return np.frombuffer(data, dtype)[0]


def _numpy_array(*_: Any) -> np.ndarray[Any, Any]:
    return np.empty(0, np.int8)  # what it becomes is in its state


def _frombuffer(data: Any, dtype: Any, shape: Any, order: str) -> np.ndarray[Any, Any]:
    if not isinstance(data, (bytes, bytearray)) or not isinstance(dtype, np.dtype):
        raise ValueError("a NumPy array without data")
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order=order)  # type: ignore[call-overload, no-any-return]


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)


def build(x: Any, state: Any) -> None:
    """Give `x`, made by a constructor, its state: the metadata of a state dict, or the content of a NumPy array."""
    if isinstance(x, OrderedDict) and isinstance(state, dict):
        if any(not isinstance(k, str) or hasattr(OrderedDict, k) for k in state):
            raise PthError("load: the file sets methods of an OrderedDict, which is refused")
        vars(x).update(state)
    elif isinstance(x, np.ndarray) and isinstance(state, tuple):
        _, shape, dtype, _, data = state
        if not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
            raise ValueError("a NumPy array without data")
        if not _is_shape(shape) or len(data) != dtype.itemsize * math.prod(shape):
            raise ValueError("a NumPy array of the wrong size")
        x.__setstate__(state)
    elif isinstance(x, np.dtype) and isinstance(state, tuple):
        if state[1] == ">":
            raise PthError("load: the file holds a NumPy array in the other byte order")
    else:
        raise PthError(f"load: the file sets attributes of a {type(x).__name__}, which is refused")


def _table(makers: Mapping[str, Callable[..., Any]]) -> dict[tuple[str, str], Any]:
    """What names stand for, by Python module and name."""
    data: dict[str, Callable[..., Any]] = {
        "collections.OrderedDict": _of_list(OrderedDict), "collections.defaultdict": _default_dict,
        "collections.Counter": lambda counts={}: Counter(_listed(dict, counts)),
        "torch.Size": lambda shape=(): Size(_listed(tuple, shape)), "torch.device": named_device,
        "_codecs.encode": _bytes, "numpy.dtype": _numpy_dtype,
        "builtins.set": _of_list(set), "builtins.frozenset": _of_list(frozenset), "builtins.complex": complex,
        "builtins.bytearray": _byte_array, "builtins.range": range, "builtins.slice": slice,
    }  # fmt: skip
    for name in _FACTORIES:
        data.setdefault(f"builtins.{name}", _refused(name))
    for core in ("numpy.core", "numpy._core"):
        data[f"{core}.multiarray.scalar"] = _numpy_scalar
        data[f"{core}.multiarray._reconstruct"] = _numpy_array
        data[f"{core}.numeric._frombuffer"] = _frombuffer
    table: dict[tuple[str, str], Any] = {}
    for path, make in {**data, **makers}.items():
        module, _, name = path.rpartition(".")
        table[module, name] = Constructor(name, make)
        if module == "builtins":
            table["__builtin__", name] = table[module, name]
    for name, dtype in STORAGES.items():
        table["torch", name] = table["torch.storage", name] = StorageType(dtype)
    table["torch", UNTYPED] = table["torch.storage", UNTYPED] = StorageType(None)
    for d in dtypes.ALL:
        table["torch", d.name] = d
    kinds: dict[str, type] = {
        "numpy.ndarray": np.ndarray, "torch.Tensor": Tensor, "torch.nn.parameter.Parameter": Parameter,
        "torch.nn.parameter.Buffer": Buffer,
    }  # fmt: skip
    for path, kind in kinds.items():
        module, _, name = path.rpartition(".")
        table[module, name] = kind
    return table


class Names:
    """Looks names up: those of plain data, and `makers`, by dotted name, for what depends on the file's memory."""

    def __init__(self, makers: Mapping[str, Callable[..., Any]]) -> None:
        self._table = _table(makers)

    def __call__(self, module: str, name: str) -> Any:
        found = self._table.get((module, name))
        if found is not None:
            return found
        if module == "torch" and name.startswith(_OTHER_DTYPES):
            raise PthError(f"load: the file holds a tensor of torch.{name}; there is no such dtype here")
        is_tensor = module.startswith("torch.") and name.startswith("_rebuild")
        reason = "there are no such tensors here" if is_tensor else "it could run code"
        raise PthError(
            f"load: the file asks for {module}.{name}, which is refused: {reason}. Tensors, numbers, strings and "
            "containers of them are read; of a module or an optimizer, save its state_dict()"
        )
