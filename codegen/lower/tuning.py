"""Sizes and choices of lowering that suit one kind of machine or another; the templates are the same for all.

They depend on the kind of machine alone, never on how many cores or threads there are, so that results don't either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Tuning:
    """How kernels are cut.

    `flat`: loops over what is kept run as one, so that every element, or every row, is an iteration of the parallel
    loop; else the outermost one or two are parallel. Finding an element's place then costs divisions.

    `row_block`: elements of a row that are folded before their result joins the row's. `short_row`: rows up to that
    length are gone through from end to end, several side by side. Fewer than `few_rows` rows of at least `long_row`
    elements are cut into chunks. `chunk`: elements that one task folds then, or where nothing is kept.

    `keeps`: what is costly is kept from one phase of a row to the next, in cache, instead of computed again.

    `columns`: the width of a block of columns; `min_rows` and `max_rows`: the rows in a chunk of them. `registers`:
    the accumulators of a column are held by the lane that goes down it, else they lie in memory and rows are gone
    through one by one.

    `long_scan`: scans of at least that length, and of fewer rows than `scan_rows`, are cut into chunks.
    `scatter_tasks`: how many tasks the destinations of a scatter are cut into.

    `tile_read`, `tile_written`: how transpositions are cut, along what is contiguous in what is read and in what is
    written.
    """

    flat: bool = False
    row_block: int = 4096
    short_row: int = 12
    long_row: int = 0
    few_rows: int = 0
    chunk: int = 4096
    keeps: bool = True
    columns: int = 1024
    min_rows: int = 16
    max_rows: int = 4096
    registers: bool = False
    long_scan: int = 4096
    scan_rows: int = 16
    scatter_tasks: int = 16
    tile_read: int = 64
    tile_written: int = 16


CPU_TUNING: Final = Tuning()
"""Rows and blocks that fit a core's cache; portions of the outermost loop go to threads."""

GPU_TUNING: Final = Tuning(
    flat=True, row_block=1 << 16, short_row=16, long_row=1 << 15, few_rows=512, chunk=8192, keeps=False, columns=256,
    registers=True, long_scan=1024, scan_rows=4096, scatter_tasks=1024, tile_read=32, tile_written=32,
)  # fmt: skip
"""Iterations that keep tens of thousands of threads busy; neighbours in a block read neighbours in memory."""
