"""Anomaly mode: finds the operation whose gradient first turns into NaN, and the line that recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.ir.errors import AutogradError

from ..arrays import on_host
from ..backend import DeviceArray
from ..mode import local
from ..tape import TapeNode
from ..tensor import Tensor


class detect_anomaly:
    """Inside, tape nodes remember their line, and a backward pass that makes a NaN raises `RuntimeError`.

    Slow: nodes run one after the other, and compiled functions eagerly, so that their lines are known, too.
    `check_nan=False` only remembers lines.

    >>> import jitgrad as jg
    >>> x = jg.tensor(-1.0, requires_grad=True)
    >>> try:
    ...     with jg.autograd.detect_anomaly():
    ...         jg.sqrt(x).backward()
    ... except RuntimeError as error:
    ...     print(error.message)
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._mode = _Mode(True, check_nan)

    def __enter__(self) -> None:
        self._mode.enter()

    def __exit__(self, *exc: object) -> None:
        self._mode.leave()


class set_detect_anomaly:
    """Switches anomaly mode at once; as a context manager also back at its end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._mode = _Mode(mode, check_nan)
        self._mode.enter()

    def __enter__(self) -> None:
        """Nothing: the constructor has switched."""

    def __exit__(self, *exc: object) -> None:
        self._mode.leave()


class _Mode:
    def __init__(self, enabled: bool, check_nan: bool) -> None:
        self.enabled = enabled
        self.check_nan = check_nan
        self.before = (False, True)

    def enter(self) -> None:
        mode = local.mode
        self.before = (mode.anomaly, mode.check_nan)
        mode.anomaly, mode.check_nan = self.enabled, self.check_nan
        mode.watch(mode.saved_hooks)

    def leave(self) -> None:
        mode = local.mode
        mode.anomaly, mode.check_nan = self.before
        mode.watch(mode.saved_hooks)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread."""
    return local.mode.anomaly


def check_node(node: TapeNode, grads: Sequence[Any]) -> None:
    """Raise if a cotangent that `node` gave holds a NaN."""
    for i, g in enumerate(grads):
        data = g._data if isinstance(g, Tensor) else g
        if data.__class__ is DeviceArray:
            data = on_host(data)
        if isinstance(data, np.ndarray) and data.dtype.kind not in "biu" and np.isnan(data).any():
            error = AutogradError(f"Function '{node.name()}' returned nan values in its {i}th output.")
            error.attach_location(str(node.location) if node.location else None)
            raise error
