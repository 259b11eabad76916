"""Map groups: one nest of loops over the domain, stores in its body."""

from __future__ import annotations

from .group_lowering import GroupLowering
from .kernel_builder import Launch
from .loops import nest, parallel


def lower_map(lowering: GroupLowering) -> list[Launch]:
    """One launch."""
    group, b = lowering.group, lowering.builder()
    loops = lowering.loops(range(len(group.domain)), lowering.all_expressions())
    b.use_axes(loops)
    headers, extent = parallel(b, loops, 0)
    stores = lowering.store_full(b, lowering.full_stores)
    return [b.launch(nest(headers, stores), extent, lowering.operations, lowering.label())]
