"""When each value of a row group is computed: how often its rows are gone through, and for what."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..fuse.roots import Root
from .group_lowering import GroupLowering


@dataclass(slots=True)
class Phases:
    """When each root of a row group is computed. Also says what may overwrite what it reads."""

    lowering: GroupLowering
    ready: dict[int, int] = field(default_factory=dict)  # by number: the first phase that may use the value

    def __post_init__(self) -> None:
        for root in self.lowering.group.roots:
            own = max((self.ready.get(r.number, 0) for r in root.reads), default=0)
            self.ready[root.number] = own + (root.reduction is not None)

    def phase(self, root: Root) -> int:
        """The phase whose loops compute `root`."""
        return self.ready[root.number] - (root.reduction is not None)

    @property
    def count(self) -> int:
        """How many phases have loops."""
        streamed = [*self.lowering.reductions, *self.lowering.full_stores]
        return max(self.phase(r) for r in streamed) + 1 if streamed else 0
