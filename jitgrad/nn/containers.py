"""Modules that hold other modules: in a chain, in a list, in a dict."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from .module import Module


class _Indexed(Module):
    """Modules named "0", "1" and so on."""

    def _name_at(self, index: Any) -> str:
        i = operator.index(index)
        if not -len(self) <= i < len(self):
            raise IndexError(f"index {i} is out of range")
        return str(i % len(self))

    def _renumber(self, modules: Iterable[Module]) -> None:
        """Hold these modules, in this order."""
        kept = list(modules)
        self._modules.clear()
        for i, module in enumerate(kept):
            self.add_module(str(i), module)

    def _sliced(self, modules: list[Module]) -> Any:
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._sliced(list(self._modules.values())[index])
        return self._modules[list(self._modules)[int(self._name_at(index))]]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, list(self._modules)[int(self._name_at(index))], module)

    def __delitem__(self, index: Any) -> None:
        modules = list(self._modules.values())
        if isinstance(index, slice):
            del modules[index]
        else:
            del modules[int(self._name_at(index))]
        self._renumber(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))

    def append(self, module: Module) -> Any:
        """Put a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module in front of the one at `index`."""
        if not isinstance(module, Module):
            raise TypeError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Put modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Indexed):
    """Modules applied one after the other; given in order, or as an ordered dict of names.

    >>> import jitgrad as jg
    >>> model = jg.nn.Sequential(jg.nn.Linear(2, 3), jg.nn.ReLU())
    >>> model
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    >>> model(jg.zeros(4, 2)).shape
    jitgrad.Size([4, 3])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], Mapping) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        """Apply them."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _sliced(self, modules: list[Module]) -> Any:
        names = {id(m): name for name, m in self._modules.items()}
        return type(self)({names[id(m)]: m for m in modules})

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [names[int(self._name_at(index))]]:
            del self._modules[name]
        if all(name.isdigit() for name in names):
            self._renumber(self._modules.values())

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, other: int) -> Any:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return Sequential(*list(self) * other)

    __rmul__ = __mul__


class ModuleList(_Indexed):
    """A list of modules, whose parameters are the parent's too."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def _sliced(self, modules: list[Module]) -> Any:
        return type(self)(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> Any:
        return ModuleList(list(chain(self, other)))

    def __repr__(self) -> str:
        lines = []
        previous: tuple[str, list[int]] = ("", [])
        groups = []
        for i, text in enumerate(map(repr, self)):
            if text == previous[0]:
                previous[1].append(i)
            else:
                previous = (text, [i])
                groups.append(previous)
        for text, places in groups:
            several = f"({places[0]}-{places[-1]}): {len(places)} x " if len(places) > 1 else f"({places[0]}): "
            lines.append("  " + (several + text).replace("\n", "\n  "))
        return f"{self._get_name()}()" if not lines else "\n".join([f"{self._get_name()}(", *lines, ")"])


class ModuleDict(Module):
    """A dict of modules, whose parameters are the parent's too."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take a module out."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The keys."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """The pairs of key and module."""
        return self._modules.items()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from pairs."""
        for key, module in pairs("ModuleDict", modules):
            self[key] = module


def pairs(name: str, given: Any) -> list[tuple[str, Any]]:
    """What a dict of modules or parameters is updated with: a mapping, another such dict, or pairs."""
    if isinstance(given, Mapping) or hasattr(given, "items"):
        return list(given.items())
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(given).__name__}"
        )
    return [(key, value) for key, value in given]
