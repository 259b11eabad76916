"""The table of samples: for every op in the registry, applications that the conformance suite checks.

An op without samples fails the suite. Pointwise ops get theirs from their declaration, others by a function.
"""

from collections.abc import Callable, Iterable

from ops import creation_samples, pointwise_samples, random_samples, reduction_samples
from ops.sampling import Sample

from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops import REGISTRY

Builder = Callable[[], Iterable[Sample]]

TABLE: dict[str, Builder] = {
    "where": pointwise_samples.where_samples,
    "convert": pointwise_samples.convert_samples,
    **creation_samples.TABLE,
    **reduction_samples.TABLE,
    **random_samples.TABLE,
}


def samples_of(name: str) -> list[Sample]:
    """The samples of the op called `name`; empty if there are none."""
    if name in TABLE:
        return list(TABLE[name]())
    cls = REGISTRY[name]
    return list(pointwise_samples.pointwise_samples(cls())) if issubclass(cls, Pointwise) else []


ALL = [(name, sample) for name in REGISTRY for sample in samples_of(name)]
