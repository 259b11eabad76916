"""The tensors that a program keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from jitgrad.ir.errors import ArgumentError, ArgumentTypeError, DeviceError

from ..errors import located
from ..tensor import Tensor, to_array, wrap
from .spec import Spec


class State(MutableMapping[str, Tensor]):
    """Names and tensors. An entry may be replaced by a tensor of its type; none can be added or removed.

    >>> import jitgrad as jg
    >>> program = jg.export(jg.nn.Linear(2, 1, bias=False), (jg.ones(1, 2),))
    >>> program.state["weight"] = jg.tensor([[1.0, 2.0]])
    >>> program(jg.ones(1, 2))
    tensor([[3.]])
    """

    def __init__(self, spec: Spec, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._entries = {s.name: s for s in spec.state}
        self._types = {s.name: spec.graph.inputs[s.input].type for s in spec.state}
        self.tensors = {name: wrap(arrays[name]) for name in self._entries}

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self.tensors[name]
        except KeyError:
            raise KeyError(f"the program's state has no {name!r}; it has {list(self._entries)}") from None

    def __setitem__(self, name: str, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise located(ArgumentTypeError(f"state {name!r} must be a Tensor, not {type(value).__name__}"))
        if self[name].type_ != value.type_:
            raise located(ArgumentError(f"state {name!r} is {self[name].type_}; it can't be {value.type_}"))
        if self[name].device != value.device:
            raise located(DeviceError(f"state {name!r} is on {self[name].device}; it can't be on {value.device}"))
        self.tensors[name] = value

    def __delitem__(self, name: str) -> None:
        raise located(ArgumentTypeError(f"state {name!r} is part of the program and can't be removed"))

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def kind(self, name: str) -> str:
        """What an entry is: parameter, buffer, optimizer, gradient, random, constant or tensor."""
        self[name]
        return self._entries[name].kind

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The numbers as NumPy arrays sharing memory."""
        return {name: to_array(t) for name, t in self.tensors.items()}

    def move(self, device: Any) -> None:
        """Move all tensors to a device."""
        self.tensors = {name: t.to(device) for name, t in self.tensors.items()}  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        lines = [f"  {name}: {t.type_} ({self._entries[name].kind})" for name, t in self.tensors.items()]
        return "\n".join(["State(", *lines, ")"])
