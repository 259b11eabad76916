"""The key of a call: what decides which specialisation serves it.

    key ::= argument structure, ambient mode, fingerprint of the function, argument types, repeats, overlaps

Building it is most of what a compiled call costs on small tensors, so arguments that are all tensors take a short way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from .. import pytree
from ..mode import local
from ..tensor import Tensor
from .code import Reads, reads_of
from .fingerprint import Same, fingerprint
from .memory import layout, overlaps

LEAVES = 5  # where the parts of the single arguments start
_ANY_FLOAT = ("a float",)


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """Leaves and structure of a call's arguments; a number stands for that many tensors."""
    if not kwargs:
        for x in args:
            if type(x) is not Tensor:
                break
        else:
            return list(args), len(args)
    return pytree.flatten((args, kwargs))


def call_key(
    f: Callable[..., Any], leaves: Sequence[Any], structure: Any, varying: frozenset[int] = frozenset(),
    known: Hashable | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The key of calling `f` with these argument leaves; floats whose index is in `varying` may be any.

    `known` is the fingerprint of `f`, if it is known.
    """
    reads = reads_of(f)
    while True:
        count = len(reads.codes)
        found = _call_key(f, leaves, structure, reads, varying, known)
        if len(reads.codes) == count:  # otherwise methods of the arguments name attributes that were passed over
            return found
        known = None


def _call_key(
    f: Callable[..., Any], leaves: Sequence[Any], structure: Any, reads: Reads, varying: frozenset[int],
    known: Hashable | None,
) -> tuple[Any, ...]:  # fmt: skip
    mode = local.mode
    parts: list[Any] = [
        structure,
        (mode.grad, mode.inference, mode.default_dtype, mode.place, mode.cuda_device, mode.autocast_state),
        fingerprint(f, reads) if known is None else known,
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
    if varying:
        _let_vary(parts, leaves, varying)
    if tensors > 1:
        if len(set(map(id, leaves))) < len(leaves):
            parts[3] = _repeats(leaves)
        if views:
            parts[4] = overlapping(leaves)
    return tuple(parts)


def _places(leaves: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Each argument leaf that is no tensor, and where in the key its part is."""
    at = LEAVES
    for i, x in enumerate(leaves):
        is_tensor = isinstance(x, Tensor)
        if not is_tensor:
            yield i, at
        at += 2 if is_tensor and x.__dict__ else 1


def _let_vary(parts: list[Any], leaves: Sequence[Any], varying: frozenset[int]) -> None:
    for i, at in _places(leaves):
        if i in varying and type(leaves[i]) is float:
            parts[at] = _ANY_FLOAT


def varying_floats(old: Any, new: tuple[Any, ...], leaves: Sequence[Any]) -> frozenset[int]:
    """The argument leaves that are floats with other values than in an old key, if that is all that differs."""
    if old is None or len(old) != len(new) or old[0] != new[0]:
        return frozenset()
    at_leaf = {at: i for i, at in _places(leaves)}
    found = set()
    for at, (a, b) in enumerate(zip(old, new, strict=True)):
        if a != b:
            if at not in at_leaf or type(leaves[at_leaf[at]]) is not float or type(a) is not tuple or a[0] is not float:
                return frozenset()
            found.add(at_leaf[at])
    return frozenset(found)


def _repeats(leaves: Sequence[Any]) -> tuple[int, ...]:
    """For each leaf that is a tensor, the index at which this very tensor first occurs."""
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(x), i) if isinstance(x, Tensor) else i for i, x in enumerate(leaves)])


def overlapping(leaves: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Pairs of different argument tensors that share memory."""
    different = {id(x): (i, x._data) for i, x in reversed(list(enumerate(leaves))) if isinstance(x, Tensor)}
    return overlaps(list(reversed(different.values())))
