"""`save` and `load`: tensors in nested containers, in one safetensors file, without pickle; or PyTorch's (`pth/`).

The safetensors file holds the tensors under readable names (the keys that lead to them), and as metadata a JSON text
that says how containers, numbers and strings lie around them. Loading builds nothing but those; no code is run. A file
without that text, from another program, loads as a dict of its tensors.
"""

from __future__ import annotations

import binascii
import io
import json
import math
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DeviceError
from jitgrad.ir.types import Device

from .device import as_device
from .errors import located
from .functions.registry import public
from .moving import move
from .nn.parameter import Buffer, Parameter
from .pth import PTH_HEAD, PthError, is_pth, load_pth, save_pth
from .tensor import Size, Tensor, to_array, wrap

_KEY = "jitgrad"
_FORMAT = 1
_NAMES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32,
    "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
    "C64": dtypes.complex64, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
}  # fmt: skip
_CLASSES: dict[str, type[Tensor]] = {"Tensor": Tensor, "Parameter": Parameter, "Buffer": Buffer}
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "size": Size,
}  # fmt: skip
_MAPPINGS: dict[str, Callable[[Any], Any]] = {
    "dict": dict,
    "ordered": OrderedDict,
    "counter": lambda p: Counter(dict(p)),
}


class _Writer:
    """Turns an object into JSON, and collects the arrays in it."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._named: dict[int, str] = {}
        self._kept: list[Any] = []

    def encode(self, x: Any, path: tuple[str, ...]) -> Any:
        """`x`, which lies at `path`, as JSON."""
        if x is None or isinstance(x, (bool, str)) or type(x) is int:
            return x
        if type(x) is float:
            return x if math.isfinite(x) else {"float": repr(x)}
        if isinstance(x, Tensor):
            return self._tensor(x, path)
        if isinstance(x, (np.ndarray, np.generic)):
            kind = "array" if isinstance(x, np.ndarray) else "scalar"
            return {kind: self._name(x, np.asarray(x), path)}
        if isinstance(x, Mapping):
            kind = "counter" if isinstance(x, Counter) else "ordered" if isinstance(x, OrderedDict) else "dict"
            items = [[self.encode(k, path), self.encode(v, (*path, str(k)))] for k, v in x.items()]
            return {kind: items}
        for kind, cls in _SEQUENCES.items():
            if type(x) is cls:
                return {kind: [self.encode(v, (*path, str(i))) for i, v in enumerate(x)]}
        return self._other(x, path)

    def _other(self, x: Any, path: tuple[str, ...]) -> Any:
        if isinstance(x, DType):
            return {"dtype": x.name}
        if isinstance(x, complex):
            return {"complex": [repr(x.real), repr(x.imag)]}
        if isinstance(x, (bytes, bytearray)):
            return {"bytes": binascii.b2a_base64(bytes(x), newline=False).decode("ascii")}
        where = ".".join(path) or "the object itself"
        raise located(
            ArgumentTypeError(
                f"save: {where}: {type(x).__name__} cannot be saved; tensors, arrays, numbers, strings and containers "
                "of them can. Of a module or an optimizer, save its state_dict()"
            )
        )

    def _tensor(self, t: Tensor, path: tuple[str, ...]) -> Any:
        cls = next((name for name, c in _CLASSES.items() if type(t) is c), "Tensor")
        made: dict[str, Any] = {"tensor": self._name(t, to_array(t), path), "dtype": t.dtype.name}
        if cls != "Tensor":
            made["class"] = cls
        if t.requires_grad:
            made["requires_grad"] = True
        if t.device.type != "cpu":
            made["device"] = str(t.device)
        return made

    def _name(self, x: Any, array: np.ndarray[Any, Any], path: tuple[str, ...]) -> str:
        """The name an array is stored under; the same object has the same name."""
        name = self._named.get(id(x))
        if name is None:
            base = name = ".".join(path) or "value"
            count = 1
            while name in self.arrays:
                count += 1
                name = f"{base}#{count}"
            if array.dtype == np.complex128:
                array = array[..., np.newaxis].view(np.float64)
            self.arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
            self._named[id(x)] = name
            self._kept.append(x)
        return name


class _Reader:
    """Builds what JSON describes, from the arrays of a file."""

    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]], map_location: Any = None) -> None:
        self.arrays = arrays
        self._map_location = map_location
        self._tensors: dict[str, Tensor] = {}

    def decode(self, x: Any) -> Any:
        """The object that `x` describes."""
        if not isinstance(x, dict):
            return x
        kind, content = next(iter(x.items()))
        if kind == "tensor":
            return self._tensor(x)
        if kind in _SEQUENCES:
            return _SEQUENCES[kind]([self.decode(v) for v in content])
        if kind in _MAPPINGS:
            return _MAPPINGS[kind]([(self.decode(k), self.decode(v)) for k, v in content])
        return self._other(kind, content)

    def _other(self, kind: str, content: Any) -> Any:
        if kind == "float":
            return float(content)
        if kind == "array":
            return self.arrays[content]
        if kind == "scalar":
            return self.arrays[content][()]
        if kind == "dtype":
            return next(d for d in dtypes.ALL if d.name == content)
        if kind == "complex":
            return complex(*map(float, content))
        if kind == "bytes":
            return binascii.a2b_base64(content)
        raise located(ArgumentError(f"load: the file holds a {kind!r}, which this version does not know"))

    def _tensor(self, x: dict[str, Any]) -> Tensor:
        name = x["tensor"]
        if name not in self._tensors:
            array = self.arrays[name]
            if x.get("dtype") == "complex128" and array.dtype == np.float64:
                array = array.view(np.complex128)[..., 0]
            data = placed(wrap(array), x.get("device", "cpu"), self._map_location)._data
            t = self._tensors[name] = wrap(data, _CLASSES[x.get("class", "Tensor")])
            t.requires_grad_(x.get("requires_grad", False))
            if isinstance(t, Buffer):
                t.persistent = True
        return self._tensors[name]


def _library() -> Any:
    """The one place that imports safetensors, when a file is read or written."""
    import safetensors.numpy

    return safetensors


@public(method=False)
def save(obj: Any, f: Any, *, format: str | None = None) -> None:
    """Save tensors in nested containers to a path or a binary file.

    Dicts, lists, tuples, sets, numbers, strings, None, NumPy arrays and dtypes come back as they are; a tensor that
    occurs twice is stored once. A path that ends in `.pth` or `.pt` gets PyTorch's format, which `torch.load` reads,
    and in which tensors that share host memory still do when loaded; all else gets safetensors. `format`,
    "pth" or "safetensors", says it otherwise. A file is written under another name first, and never seen half.

    >>> import io, jitgrad as jg
    >>> file = io.BytesIO()
    >>> jg.save({"step": 3, "w": jg.ones(2)}, file)
    >>> jg.load(io.BytesIO(file.getvalue()))
    {'step': 3, 'w': tensor([1., 1.])}
    """
    if format not in (None, "pth", "safetensors"):
        raise located(ArgumentError(f"save: format must be 'pth' or 'safetensors', not {format!r}"))
    is_file = hasattr(f, "write")
    path = "" if is_file else os.fspath(f)
    if format is None:
        format = "pth" if path.endswith((".pth", ".pt")) else "safetensors"
    if format == "pth":
        stem = os.path.splitext(os.path.basename(path))[0] or "archive"
        _written(f, lambda file: save_pth(obj, file, stem))
        return
    writer = _Writer()
    structure = writer.encode(obj, ())
    metadata = {_KEY: json.dumps({"format": _FORMAT, "object": structure}, allow_nan=False)}
    library = _library().numpy
    if is_file:
        f.write(library.save(writer.arrays, metadata))
    else:
        _replaced(path, lambda temporary: library.save_file(writer.arrays, temporary, metadata))


def _written(f: Any, write: Callable[[Any], None]) -> None:
    """Let `write` write to a binary file, or to the file of a path."""
    if hasattr(f, "write"):
        write(f)
        return

    def to_path(path: str) -> None:
        with open(path, "wb") as file:
            write(file)

    _replaced(os.fspath(f), to_path)


def _replaced(path: str, write: Callable[[str], None]) -> None:
    """Let `write` write a file under another name, which then takes the place of `path`."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        write(temporary)
        os.replace(temporary, path)  # never half a file under the name
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


@public(method=False)
def load(f: Any, map_location: Any = None, *, weights_only: bool = True, mmap: bool | None = None) -> Any:
    """What `save` or `torch.save` wrote to a path or a binary file; of any other safetensors file, a dict of tensors.

    Tensors come back on the device they were on, or where `map_location` says: a device for all, a dict from names of
    devices to others, or a function of a tensor on the CPU and the name of its device, which may return another tensor.
    Nothing in the file is run, whatever `weights_only` is: a file of PyTorch's that holds more than data (a whole
    module, say) is refused with the name of what it asks for. With `mmap`, the numbers of such a file are read when
    they are used.

    Raises `ArgumentError` for files that are none of these or damaged; for PyTorch's it is a `RuntimeError` and a
    `pickle.UnpicklingError` too.
    """
    if hasattr(f, "read"):
        content = f.read()
    else:
        with open(os.fspath(f), "rb") as file:
            content = file.read(PTH_HEAD)
            if not is_pth(content):
                content += file.read()
    if is_pth(content):
        return _of_pth(io.BytesIO(content) if hasattr(f, "read") else os.fspath(f), map_location, bool(mmap))
    metadata = _metadata(content)
    described = metadata.get(_KEY)
    arrays = dict(_arrays(content))
    if described is None:
        return {name: placed(wrap(array), "cpu", map_location) for name, array in arrays.items()}
    text = json.loads(described)
    if text["format"] > _FORMAT:
        raise located(ArgumentError(f"load: the file has format {text['format']}, from a newer version of jitgrad"))
    return _Reader(arrays, map_location).decode(text["object"])


def _of_pth(f: Any, map_location: Any, mmap: bool) -> Any:
    try:
        return load_pth(f, lambda t, saved_on: placed(t, saved_on, map_location), mmap)
    except PthError as error:
        raise located(error)  # noqa: B904 - the same error, with the user's line


def placed(t: Tensor, saved_on: str, map_location: Any) -> Tensor:
    """A loaded tensor on the device that it is for."""
    if isinstance(map_location, Mapping):
        map_location = map_location.get(saved_on)
    elif callable(map_location) and not isinstance(map_location, (str, Device)):
        made = map_location(t, saved_on)
        if isinstance(made, Tensor):
            return made
        map_location = None
    try:
        return move(t, as_device(saved_on if map_location is None else map_location))
    except DeviceError:
        if map_location is not None:
            raise
        raise located(
            DeviceError(
                f"load: the file holds tensors on {saved_on}, which is not here; pass map_location='cpu' to have them "
                "on the CPU"
            )
        ) from None


def _metadata(content: bytes) -> dict[str, str]:
    """The header's metadata; the header's length is its first eight bytes."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise located(ArgumentError("load: this is neither a safetensors file nor one of torch.save"))
    try:
        header = json.loads(content[8 : 8 + length])
    except ValueError:
        raise located(ArgumentError("load: this is neither a safetensors file nor one of torch.save")) from None
    return header.get("__metadata__") or {}


def _arrays(content: bytes) -> Any:
    """Names and arrays, of tensors' types; the library checks that they lie within the file."""
    for name, view in _library().deserialize(content):
        dtype = _NAMES.get(view["dtype"])
        if dtype is None:
            raise located(ArgumentError(f"load: {name}: no tensor type for {view['dtype']}"))
        yield name, np.frombuffer(bytearray(view["data"]), dtype.np).reshape(view["shape"])
