"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...functions.joining import cat
from ...tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other."""
    return cat([p.reshape(-1) for p in parameters])  # type: ignore[attr-defined]


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters' data be the parts of a vector, as `parameters_to_vector` made it."""
    start = 0
    for p in parameters:
        count = p.type_.numel
        p.data = vec[start : start + count].reshape(p.shape).data  # type: ignore[index]
        start += count
