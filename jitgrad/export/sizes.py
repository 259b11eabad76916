"""Tracked sizes: what a function does with the lengths of its tensors while it is exported.

`Tensor.shape` and its like give user code integers that know which dimension they are. Arithmetic carries that along;
a comparison becomes a constraint of the program, with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.ir.instantiate import concrete
from jitgrad.ir.op import Op


class SizeRecorder:
    """What one trace finds out about sizes."""

    def plain(self, op: Op) -> Op:
        """`op` with plain numbers for tracked ones."""
        return concrete(op)  # type: ignore[no-any-return]

    @contextmanager
    def tracking(self, tracer: Any) -> Iterator[None]:
        """Inside, sizes of the tensors of `tracer` are tracked."""
        yield
