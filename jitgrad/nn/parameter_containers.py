"""Modules that hold parameters: in a list, in a dict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .containers import pairs
from .module import Module
from .parameter import Parameter


class ParameterList(Module):
    """A list of parameters; tensors in it become parameters, other things stay as they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def _name_at(self, index: Any) -> str:
        i = operator.index(index)
        if not -len(self) <= i < len(self):
            raise IndexError(f"index {i} is out of range")
        return str(i % len(self))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, self._name_at(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, self._name_at(index), _parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def append(self, value: Any) -> Any:
        """Put a value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Put values at the end."""
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Any:
        return self.extend(values)

    def __repr__(self) -> str:
        return _listing("ParameterList", enumerate(self))


class ParameterDict(Module):
    """A dict of parameters; tensors in it become parameters, other things stay as they are."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        """The keys."""
        return self._keys.keys()

    def values(self) -> Any:
        """The values."""
        return [self[key] for key in self._keys]

    def items(self) -> Any:
        """The pairs of key and value."""
        return [(key, self[key]) for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Add values from pairs or from a mapping; those of a plain dict by the order of its keys, as PyTorch does."""
        given = pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            given.sort(key=operator.itemgetter(0))
        for key, value in given:
            self[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default`."""
        return getattr(self, key) if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value, which is set to `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a value out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out the pair that was put in last."""
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("popitem(): the ParameterDict is empty")
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dict with `default` under each of `keys`."""
        return ParameterDict(OrderedDict((key, default) for key in keys))

    def __reversed__(self) -> Iterator[str]:
        return iter(list(reversed(self._keys)))

    def __or__(self, other: Any) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> ParameterDict:
        made = ParameterDict(other)
        made.update(self)
        return made

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __repr__(self) -> str:
        return _listing("ParameterDict", self.items())


def _parameter(value: Any) -> Any:
    is_tensor = hasattr(value, "requires_grad") and not isinstance(value, (Parameter, Module))
    return Parameter(value) if is_tensor else value


def _listing(name: str, items: Any) -> str:
    lines = []
    for key, value in items:
        if hasattr(value, "dtype"):
            kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
            size = "x".join(map(str, value.shape))
            lines.append(f"  ({key}): {kind} containing: [{value.dtype} of size {size}]")
        else:
            lines.append(f"  ({key}): Object of type: {type(value).__name__}")
    return f"{name}()" if not lines else "\n".join([f"{name}(", *lines, ")"])
