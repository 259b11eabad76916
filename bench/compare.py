"""The table: jitgrad beside whichever of PyTorch and JAX are installed, row by row, in one run.

    python bench/compare.py [--quick] [--rows gelu,conv] [--sizes table|all] [--rounds N] [--eager]

Contestants have a process each and take turns. Prints medians and bests in milliseconds, the ratio of jitgrad's to
the best peer's, how long the first three calls took, peak memory (beyond the import's), and the bound that this
machine's measured copy and multiply-add rates put on the work. Writes `bench/results/compare.json` and `compare.png`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from datetime import date
from pathlib import Path
from typing import Any

from chart import bar_chart
from contest import CONTESTANTS, PEERS, contest, installed
from roofline import Rates, cpu_name, measured_rates
from rows import ROWS, Params, Row

RESULTS = Path(__file__).resolve().parent / "results"


def contestants_of(row: Row, params: Params, eager_too: bool) -> list[str]:
    """Who can do this work here."""
    names = ["jitgrad eager", "torch"] if row.eager else list(CONTESTANTS)
    if not (row.eager or eager_too):
        names.remove("jitgrad eager")
    if row.jax is None and "jax" in names:
        names.remove("jax")
    return [name for name in names if installed(name)]


def measure(row: Row, size: str, options: argparse.Namespace) -> dict[str, Any]:
    """One row at one size."""
    params = row.sizes[size]
    found = contest(row, params, contestants_of(row, params, options.eager), options.rounds, options.seconds)
    ways = {
        name: {
            "median_ms": 1e3 * statistics.median(c.times),
            "best_ms": 1e3 * min(c.times),
            "first_s": c.first_s,
            "first_three_s": c.three_s,
            "peak_mib": c.peak_mib,
        }
        for name, c in found.items()
    }
    record = {"row": row.name, "title": row.title, "size": size, "params": dict(params), "goal": row.goal, "ways": ways}
    record["agree"] = _agree(row, {name: c.numbers for name, c in found.items()})
    record |= _ratios(row, ways)
    return record


def _ratios(row: Row, ways: dict[str, dict[str, float]]) -> dict[str, Any]:
    ours, peers = ways.get("jitgrad eager" if row.eager else "jitgrad"), [n for n in PEERS if n in ways]
    if ours is None or not peers:
        return {}
    best_peer = min(peers, key=lambda name: ways[name]["median_ms"])
    return {
        "best_peer": best_peer,
        "ratio": ours["median_ms"] / ways[best_peer]["median_ms"],
        "ratio_of_bests": ours["best_ms"] / min(ways[name]["best_ms"] for name in peers),
    }


def _agree(row: Row, numbers: dict[str, list[float]]) -> bool:
    """Whether jitgrad's numbers are PyTorch's, within what float32 and half types leave of them."""
    reference = numbers.get("torch")
    if not reference:
        return True
    scale = max(map(abs, reference)) or 1.0
    return all(
        math.isclose(a, b, rel_tol=row.tolerance * 10, abs_tol=row.tolerance * 10 * scale)
        for name in ("jitgrad", "jitgrad eager")
        for a, b in zip(numbers.get(name, []), reference, strict=False)
    )


def show(record: dict[str, Any], rates: Rates, row: Row) -> None:
    """A line of the table."""
    bound = rates.bound_ms(row.flops(record["params"]), row.traffic(record["params"]), record["params"].get("dtype"))
    record["bound_ms"] = bound
    title = record["title"] if record["size"] == "table" else f"  at {record['size']}"
    cells = [f"{name} {w['median_ms']:.3g} ({w['best_ms']:.3g})" for name, w in record["ways"].items()]
    ratio = (
        f"ratio {record['ratio']:.2f} ({record['ratio_of_bests']:.2f}), goal {record['goal']}"
        if "ratio" in record
        else ""
    )
    print(f"{title:52} {' | '.join(cells)} | {ratio} | bound {bound:.3g} ms{'' if record['agree'] else ' | DIFFERS'}")
    firsts = [f"{name} {w['first_three_s']:.3g} s, {w['peak_mib']:.0f} MiB" for name, w in record["ways"].items()]
    print(f"{'':52} first three calls, peak memory: {' | '.join(firsts)}", flush=True)


def geometric_mean(records: list[dict[str, Any]], key: str) -> float:
    """Of the rows with a ratio."""
    ratios = [r[key] for r in records if key in r]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few calls of each: some minutes in all")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--sizes", default="table", help="'table', 'all', or names of sizes")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.25, help="of one turn")
    parser.add_argument("--eager", action="store_true", help="jitgrad's eager mode too")
    parser.add_argument("--json", type=Path, default=RESULTS / "compare.json")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 7)
    rates = measured_rates()
    print(f"{date.today()}, {cpu_name()}, {len(os.sched_getaffinity(0))} cores; {rates}")
    print("medians of calls in ms, the best in brackets; the contestants take turns\n")
    records = []
    for name in options.rows.split(","):
        row = ROWS[name]
        sizes = list(row.sizes) if options.sizes == "all" else [s for s in options.sizes.split(",") if s in row.sizes]
        for size in sizes:
            records.append(measure(row, size, options))
            show(records[-1], rates, row)
    finish(records, rates, options)


def finish(records: list[dict[str, Any]], rates: Rates, options: argparse.Namespace) -> None:
    """The means, and the files."""
    table = [r for r in records if r["size"] == "table"]
    print(f"\ngeometric mean of ratios: {geometric_mean(table, 'ratio'):.2f} by medians, "
          f"{geometric_mean(table, 'ratio_of_bests'):.2f} by bests")  # fmt: skip
    options.json.parent.mkdir(exist_ok=True)
    versions = {name: _version(name) for name in ("jitgrad", "torch", "jax") if installed(name)}
    whole = {
        "date": str(date.today()),
        "cpu": cpu_name(),
        "rates": rates.as_dict(),
        "versions": versions,
        "rows": records,
    }
    options.json.write_text(json.dumps(whole, indent=1) + "\n")
    bar_chart(table, options.json.with_suffix(".png"))


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "checkout"


if __name__ == "__main__":
    sys.exit(main())
