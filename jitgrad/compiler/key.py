"""The key of a call: what decides which specialisation serves it.

    key ::= argument structure, ambient mode, fingerprint of the function, argument types, repeats, overlaps

Building it is most of what a compiled call costs on small tensors, so arguments that are all tensors take a short way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import pytree
from ..mode import local
from ..tensor import Tensor
from .code import Reads, reads_of
from .fingerprint import Same, fingerprint
from .memory import layout, overlaps

LEAVES = 5  # where the parts of the single arguments start


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """Leaves and structure of a call's arguments; a number stands for that many tensors."""
    if not kwargs:
        for x in args:
            if type(x) is not Tensor:
                break
        else:
            return list(args), len(args)
    return pytree.flatten((args, kwargs))


def call_key(f: Callable[..., Any], leaves: Sequence[Any], structure: Any) -> tuple[Any, ...]:
    """The key of calling `f` with these argument leaves."""
    reads = reads_of(f)
    while True:
        count = len(reads.codes)
        found = _call_key(f, leaves, structure, reads)
        if len(reads.codes) == count:  # otherwise methods of the arguments name attributes that were passed over
            return found


def _call_key(f: Callable[..., Any], leaves: Sequence[Any], structure: Any, reads: Reads) -> tuple[Any, ...]:
    mode = local.mode
    parts: list[Any] = [
        structure,
        (mode.grad, mode.inference, mode.default_dtype, mode.place, mode.cuda_device, mode.autocast),
        fingerprint(f, reads),
        (),
        (),
    ]
    tensors = views = 0
    for x in leaves:
        if isinstance(x, Tensor):
            data = x._data
            tensors += 1
            views += data.base is not None
            same = None if type(x) is Tensor else Same(x)  # a parameter may be reached through its module as well
            extra = x.__dict__
            hooks = fingerprint(list(x._hooks.values())) if x._hooks else None
            parts.append((data.shape, data.dtype, x._requires_grad, layout(data), same, hooks))
            if extra:
                parts.append(fingerprint(extra, reads))
        else:
            parts.append(fingerprint(x, reads))
    if tensors > 1:
        if len(set(map(id, leaves))) < len(leaves):
            parts[3] = _repeats(leaves)
        if views:
            parts[4] = _overlaps(leaves)
    return tuple(parts)


def _repeats(leaves: Sequence[Any]) -> tuple[int, ...]:
    """For each leaf that is a tensor, the index at which this very tensor first occurs."""
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(x), i) if isinstance(x, Tensor) else i for i, x in enumerate(leaves)])


def _overlaps(leaves: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Pairs of different argument tensors that share memory."""
    different = {id(x): (i, x._data) for i, x in reversed(list(enumerate(leaves))) if isinstance(x, Tensor)}
    return overlaps(list(reversed(different.values())))
