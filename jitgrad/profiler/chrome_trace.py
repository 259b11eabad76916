"""Events as a trace that Chrome (chrome://tracing) and Perfetto show: the Trace Event Format, with complete events."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .events import Event


def trace(events: Iterable[Event], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The trace as what JSON can hold. Times are in microseconds."""
    found = list(events)
    pid = os.getpid()
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python"}}
    ]  # fmt: skip
    for number, thread in enumerate(dict.fromkeys(e.thread for e in found)):
        rows.append(
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": f"thread {number}"}}
        )  # fmt: skip
    for e in found:
        args: dict[str, Any] = dict(e.args)
        if e.input_shapes:
            args["Input Dims"] = [list(s) for s in e.input_shapes]
        for name, value in (("Bytes of results", e.cpu_memory_usage), ("Flops", e.flops), ("Bytes moved", e.bytes)):
            if value:
                args[name] = value
        if e.stack:
            args["Call stack"] = list(e.stack)
        rows.append({
            "ph": "X", "cat": e.category, "name": e.name, "pid": pid, "tid": e.thread, "ts": round(e.start, 3),
            "dur": round(max(0.0, e.end - e.start), 3), "args": args,
        })  # fmt: skip
    return {"schemaVersion": 1, "displayTimeUnit": "ns", "traceEvents": rows, **metadata}


def export(events: Iterable[Event], path: Any, metadata: Mapping[str, Any]) -> None:
    """Write a trace to a file, compressed if its name ends with `.gz`."""
    text = json.dumps(trace(events, metadata), default=str)
    target = Path(path)
    if target.suffix == ".gz":
        target.write_bytes(gzip.compress(text.encode("utf-8")))
    else:
        target.write_text(text, encoding="utf-8")
