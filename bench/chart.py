"""The bar chart of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def bar_chart(records: list[dict[str, Any]], path: Path) -> None:
    """Times relative to the best peer, a group of bars per row; jitgrad's goal as a mark. Needs Matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no chart: Matplotlib isn't installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    records = [r for r in records if "ratio" in r][::-1]
    if not records:
        return
    names = ["jax", "torch.compile", "torch", "jitgrad"]
    colours = dict(zip(names, ("#b0a8d8", "#f2b68c", "#e07b4f", "#1f6f8b"), strict=True))
    figure, axes = pyplot.subplots(figsize=(9, 0.62 * len(records) + 1.4), layout="constrained")
    for i, record in enumerate(records):
        ways = {n.replace("jitgrad eager", "jitgrad"): w["median_ms"] for n, w in record["ways"].items()}
        base = record["ways"][record["best_peer"]]["median_ms"]
        present = [n for n in names if n in ways]
        for j, name in enumerate(present):
            at, height = i + 0.8 * (j + 0.5) / len(present) - 0.4, 0.8 / len(present)
            relative = ways[name] / base
            axes.barh(at, min(relative, 4), height, color=colours[name], label=name if i == 0 else None)
            axes.text(min(relative, 4) + 0.03, at, f"{ways[name]:.3g} ms", va="center", fontsize=6)
        axes.plot([record["goal"]] * 2, [i - 0.4, i + 0.4], color="black", lw=1, ls=":")
    axes.axvline(1, color="black", lw=0.8)
    axes.set(
        yticks=range(len(records)), xlim=(0, 4.5), xlabel="time relative to the best peer (dotted: the goal); cut at 4"
    )
    axes.set_yticklabels([r["title"] for r in records], fontsize=7)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colours[n]) for n in names[::-1]]
    axes.legend(handles, names[::-1], fontsize=7, loc="lower right")
    figure.savefig(path, dpi=150)
