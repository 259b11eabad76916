"""The table of samples: for every op in the registry, applications that the conformance suite checks.

An op without samples fails the suite. Pointwise ops get theirs from their declaration, others by a function.
"""

from collections.abc import Callable, Iterable
from types import ModuleType

from ops import (
    activation_samples,
    check_samples,
    complex_samples,
    creation_samples,
    fourier_samples,
    history_samples,
    indexing_samples,
    linalg_samples,
    nn_samples,
    pointwise_samples,
    quantile_samples,
    random_samples,
    reduction_samples,
    resample_samples,
    searching_samples,
    sequence_samples,
    shape_samples,
    sorting_samples,
    special_samples,
)
from ops.sampling import Sample

from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops import REGISTRY

MODULES: tuple[ModuleType, ...] = (
    check_samples,
    pointwise_samples,
    history_samples,
    creation_samples,
    reduction_samples,
    random_samples,
    quantile_samples,
    shape_samples,
    sorting_samples,
    searching_samples,
    special_samples,
    complex_samples,
    fourier_samples,
    linalg_samples,
    indexing_samples,
    activation_samples,
    nn_samples,
    resample_samples,
    sequence_samples,
)
TABLE: dict[str, Callable[[], Iterable[Sample]]] = {k: v for module in MODULES for k, v in module.TABLE.items()}


def samples_of(name: str) -> list[Sample]:
    """The samples of the op called `name`; empty if there are none."""
    if name in TABLE:
        return list(TABLE[name]())
    cls = REGISTRY[name]
    return list(pointwise_samples.pointwise_samples(cls())) if issubclass(cls, Pointwise) else []
