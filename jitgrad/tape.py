"""The tape: what an eager (or traced) op leaves behind for its gradient.

Each node names its op, where its operands came from, and the residuals its gradient rule uses; which those
are is found by running the rule once (`ir.autodiff.residuals`). A set of reachable nodes is an IR graph in
all but form; `autograd.plan` turns it into one.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.autodiff import residuals
from jitgrad.ir.errors import InternalError
from jitgrad.ir.location import user_location
from jitgrad.ir.op import Op, Pointwise
from jitgrad.ir.types import TensorType

from .memo import Memo
from .mode import Mode, local

next_seq = itertools.count().__next__

# Where an operand came from: a node's only result, (node, result index), a leaf tensor, or None for a constant.
Edge = Any
Mask = tuple[tuple[bool, ...], tuple[bool, ...]]
_masks: Memo[Mask] = Memo(limit=20_000)


class Storage:
    """What tensors that share memory have in common: the count of writes, and the views to refresh after one.

    `keepers` are nodes that have saved what is there and are to get a copy of it before it is written (weakly).
    """

    __slots__ = ("__weakref__", "_version", "keepers", "views")

    def __init__(self) -> None:
        self._version = 0
        self.views: list[Any] = []
        self.keepers: list[weakref.ref[TapeNode]] | None = None


FIXED = Storage()  # that of numbers which a function is made of, and PyTorch keeps as such: nothing to release


class TapeNode:
    """One recorded op. `saved` holds residual data (operands, then results; None where not used).

    `types` gives an operand's type where it has neither an edge nor saved data. `owners` and `versions` detect
    writes to saved data; `saved` is None once it is released. `kept` tells what
    is saved, as it was recorded; None where that is not known, or some of it is a copy made since.
    """

    __slots__ = (
        "__weakref__",
        "_metadata",
        "edges",
        "hooks",
        "kept",
        "location",
        "op",
        "owners",
        "saved",
        "seq",
        "types",
        "versions",
    )

    def __init__(self, op: Op, edges: tuple[Edge, ...], saved: Any, owners: Any, versions: Any, types: Any) -> None:
        self.op = op
        self.edges = edges
        self.saved = saved
        self.owners = owners
        self.versions = versions
        self.types = types
        self.seq = next_seq()
        self.hooks: Any = None
        self.kept: Any = None
        self.location: Any = None

    def name(self) -> str:
        """As PyTorch prints a `grad_fn`: `MulBackward0`."""
        return f"{type(self.op).__name__}Backward0"

    def constant_type(self, i: int) -> TensorType:
        """The type of operand `i`, where no edge tells it: that of the saved data, or as noted."""
        saved = self.saved[i] if self.saved else None
        if saved is not None and hasattr(saved, "dtype"):
            return TensorType(saved.shape, dtypes.FROM_NUMPY[saved.dtype])
        if self.types is None:
            raise InternalError(f"{self.name()}: operand {i} has no type")
        noted: Any = self.types[i]
        return noted if noted.__class__ is TensorType else TensorType(noted[0], dtypes.FROM_NUMPY[noted[1]])

    def infer_results(self, operands: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        """Types of the results; pointwise operands may broadcast on the tape."""
        if isinstance(self.op, Pointwise) and len(operands) > 1:
            shape = np.broadcast_shapes(*(t.shape for t in operands))
            operands = tuple(t.with_shape(shape) for t in operands)
        return self.op.infer(*operands)

    def release(self) -> None:
        """Forget what was saved, once the gradient has been taken.

        What saved nothing, or only numbers that belong to a function, can be gone through again.
        """
        for x, owner in zip(self.saved, self.owners, strict=True):
            if x is not None and owner is not FIXED:
                self.saved = self.owners = None
                break

    def __call__(self, *cotangents: Any) -> Any:
        raise TypeError(f"{self.name()} is not callable; use jitgrad.autograd.grad")

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The producers of the operands, as in PyTorch: pairs of a node (for a leaf, what adds to it) and an index."""
        return tuple([_next_function(e) for e in self.edges])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for notes of the user's, kept with the node."""
        try:
            return self._metadata
        except AttributeError:
            self._metadata: dict[Any, Any] = {}
            return self._metadata

    def _sequence_nr(self) -> int:
        return self.seq


class AccumulateGrad:
    """What stands before a leaf in the graph: it adds to the `.grad` of `variable`."""

    next_functions = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def name(self) -> str:
        """As PyTorch prints it."""
        return "AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash((AccumulateGrad, id(self.variable)))

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def _next_function(e: Edge) -> tuple[Any, int]:
    if e is None:
        return None, 0
    if isinstance(e, tuple):
        return e
    return (e if isinstance(e, TapeNode) else AccumulateGrad(e)), 0


def let_write(node: TapeNode) -> None:
    """Have a node that was recorded get copies of what it has saved before that is written (`Op.copies_on_write`)."""
    ref = weakref.ref(node)
    for owner in node.owners:
        if owner is None or owner is FIXED:
            continue
        storage = owner
        if owner.__class__ is not Storage:
            storage = owner._storage = owner._storage or Storage()
        known = storage.keepers
        if known is None:
            storage.keepers = [ref]
            continue
        count = len(known)
        if count & (count - 1) == 0:  # now and then, so that keeping the list costs constant time
            known[:] = [r for r in known if r() is not None]
        known.append(ref)


def watch(mode: Mode, node: TapeNode) -> None:
    """Do with a recorded node what the thread's mode asks for: note the user's line, pack what it has saved."""
    if mode.anomaly:
        node.location = user_location()
    if mode.saved_hooks is not None:
        mode.saved_hooks.pack_node(node)


class PackedData:
    """Saved data that hooks have packed; `unpack()` gives it back. Shape and dtype are those of the data."""

    __slots__ = ("dtype", "is_traced", "packed", "shape", "unpack")

    def __init__(self, packed: Any, data: Any, unpack: Callable[[], Any]) -> None:
        self.packed = packed
        self.shape, self.dtype = data.shape, data.dtype
        self.is_traced = local.mode.tracer is not None
        self.unpack = unpack


def is_packed_outside(x: Any) -> bool:
    """Whether it is packed data from before the present trace."""
    return x.__class__ is PackedData and not x.is_traced


class PackedNode(TapeNode):
    """A node whose saved data is packed, wholly or in part."""

    __slots__ = ()


def saved_data(node: TapeNode, slot: int) -> Any:
    """What `node` saved at `slot`."""
    x = node.saved[slot]
    return x.unpack() if x.__class__ is PackedData else x


def residual_mask(op: Op, types: Sequence[TensorType], needs: tuple[bool, ...]) -> Mask:
    """Which operands and results the gradient rule of `op` uses."""
    key = (op, needs, tuple(t.dtype for t in types), len(types))
    mask = _masks.get(key)
    if mask is None:
        mask = _masks.add(key, residuals(op, types, needs))
    return mask
