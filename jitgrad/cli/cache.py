"""`python -m jitgrad cache`: the compiled kernels on disk."""

from __future__ import annotations

import argparse
import time

from jitgrad.codegen.cache import disk_cache

from .report import Report, amount, table


def info(args: argparse.Namespace) -> Report:
    """Where the cache is, its bound, and what is in it."""
    cache = disk_cache()
    if cache.folder is None:
        return Report("kernels are kept in memory alone (JITGRAD_CACHE_DIR is empty)", {"folder": None})
    entries = cache.entries()
    used = sum(e.nbytes for e in entries)
    data = {
        "folder": str(cache.folder),
        "entries": len(entries),
        "kernels": sum(e.name.startswith("kernel-") for e in entries),
        "bytes": used,
        "limit_bytes": cache.limit,
        "oldest": min((e.used for e in entries), default=None),
        "newest": max((e.used for e in entries), default=None),
    }
    rows = [
        ("folder", str(cache.folder)),
        ("entries", f"{len(entries)}, {data['kernels']} of them kernels"),
        ("size", f"{amount(used)} of at most {amount(cache.limit)} (JITGRAD_CACHE_MB)"),
    ]
    if entries:
        rows.append(("last used", f"from {_day(data['oldest'])} to {_day(data['newest'])}"))
    return Report("kernel cache\n" + table(rows), data)


def clear(args: argparse.Namespace) -> Report:
    """Remove every entry."""
    cache = disk_cache()
    entries = cache.clear()
    used = sum(e.nbytes for e in entries)
    left = cache.entries()
    text = f"removed {len(entries)} entries, {amount(used)}"
    if left:
        text += f"; {len(left)} could not be removed from {cache.folder}"
    data = {"removed": len(entries), "bytes": used, "left": len(left)}
    return Report(text, data, exit_code=1 if left else 0)


def _day(seconds: object) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(seconds))))
