"""Samples of the ops that say where gradients go; their gradients are not those of their values."""

from ops.sampling import Sample, numbers

from jitgrad.ir import dtypes
from jitgrad.ir.ops.history import Detach, WithHistory


def detach_samples():
    """One of each dtype."""
    for dtype in dtypes.ALL:
        yield Sample(Detach(), (numbers((2, 3), dtype, 1),))


def with_history_samples():
    """One of each dtype."""
    for dtype in dtypes.ALL:
        yield Sample(WithHistory(), (numbers((2, 3), dtype, 1), numbers((2, 3), dtype, 2)))


TABLE = {"detach": detach_samples, "with_history": with_history_samples}
