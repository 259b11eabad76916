"""Averages as a table of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from jitgrad.ir.errors import ArgumentError

from ..errors import located

if TYPE_CHECKING:
    from .events import Average

_UNITS: Mapping[str, float] = MappingProxyType({"s": 1e6, "ms": 1e3, "us": 1.0})
_ALIASES: Mapping[str, str] = MappingProxyType({  # PyTorch's names for what lies on a device; times here are the host's
    "cuda_time_total": "cpu_time_total", "device_time_total": "cpu_time_total", "cuda_time": "cpu_time",
    "self_cuda_time_total": "self_cpu_time_total", "self_device_time_total": "self_cpu_time_total",
})  # fmt: skip
_SORTABLE = ("cpu_time_total", "self_cpu_time_total", "cpu_time", "count", "cpu_memory_usage", "flops", "bytes")


def table(
    averages: Sequence[Average], sort_by: str | None, row_limit: int, name_width: int, shapes_width: int,
    header: str | None, unit: str | None,
) -> str:  # fmt: skip
    """See `Averages.table`."""
    field = _ALIASES.get(sort_by or "", sort_by)
    if field is not None and field not in _SORTABLE:
        raise located(ArgumentError(f"table: sort_by is one of {', '.join(_SORTABLE)}, not {sort_by!r}"))
    if unit is not None and unit not in _UNITS:
        raise located(ArgumentError(f"table: time_unit is one of {', '.join(_UNITS)}, not {unit!r}"))
    total = sum(a.self_cpu_time_total for a in averages) or 1.0
    rows = list(averages) if field is None else sorted(averages, key=lambda a: -float(getattr(a, field)))
    shown = rows if row_limit < 0 else rows[:row_limit]
    columns = _columns(shown, total, name_width, shapes_width, unit)
    widths = [max(map(len, column)) for column in columns]
    rule = "  ".join("-" * w for w in widths)
    lines = [
        "  ".join(
            text.ljust(w) if k == 0 else text.rjust(w)
            for k, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in zip(*columns, strict=True)
    ]  # fmt: skip
    more = [f"... and {len(rows) - len(shown)} more rows"] if len(rows) > len(shown) else []
    head = [] if header is None else [header]
    end = [f"Self CPU time total: {time_text(total, unit)}"]
    return "\n".join([*head, rule, lines[0], rule, *lines[1:], rule, *more, *end, ""])


def _columns(
    rows: Sequence[Average], total: float, name_width: int, shapes_width: int, unit: str | None
) -> list[list[str]]:
    columns = [
        ["Name", *(_cut(a.key, name_width) for a in rows)],
        ["Kind", *(a.category for a in rows)],
        ["Self CPU %", *(f"{100 * a.self_cpu_time_total / total:.2f}%" for a in rows)],
        ["Self CPU", *(time_text(a.self_cpu_time_total, unit) for a in rows)],
        ["CPU total %", *(f"{100 * a.cpu_time_total / total:.2f}%" for a in rows)],
        ["CPU total", *(time_text(a.cpu_time_total, unit) for a in rows)],
        ["CPU time avg", *(time_text(a.cpu_time, unit) for a in rows)],
    ]
    if any(a.cpu_memory_usage for a in rows):
        columns.append(["CPU Mem", *(_scaled(a.cpu_memory_usage, 1024, "B") for a in rows)])
    if any(a.bytes for a in rows):
        columns.append(["Moved", *(_scaled(a.bytes, 1024, "B") if a.bytes else "--" for a in rows)])
    if any(a.flops for a in rows):
        columns.append(["Flops", *(_scaled(a.flops, 1000, "") if a.flops else "--" for a in rows)])
    columns.append(["# of Calls", *(str(a.count) for a in rows)])
    if any(a.input_shapes for a in rows):
        columns.append(["Input Shapes", *(_cut(str([list(s) for s in a.input_shapes]), shapes_width) for a in rows)])
    if any(a.stack for a in rows):
        columns.append(["Source Location", *((a.stack[0] if a.stack else "") for a in rows)])
    return columns


def time_text(us: float, unit: str | None = None) -> str:
    """Microseconds, in a fitting unit."""
    unit = unit or ("s" if us >= 1e6 else "ms" if us >= 1e3 else "us")
    return f"{us / _UNITS[unit]:.3f}{unit}"


def _scaled(number: float, step: int, unit: str) -> str:
    for prefix in ("", "K", "M", "G"):
        if number < step:
            return f"{number:.2f} {prefix}{unit}" if prefix else f"{int(number)} {unit}".rstrip()
        number /= step
    return f"{number:.2f} T{unit}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
