"""Compiles the kernels of a zoo of graphs for CUDA, and prints totals by family. Needs numba-cuda, and no GPU.

    python bench/cuda_compile.py [--all] [--capability 8.0 9.0] [--json FILE]

`--all` takes every sample of every op, with gradients: some thousand kernels, and the better part of an hour.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from codegen.formulas import CASES, build
from codegen.ordered import GATHERS, SCANS, SCATTERS
from cuda_zoo import STEPS, kernels_of, op_graphs
from ops.test_compiled import NAMES

from jitgrad.codegen.cuda.kernels import CudaKernel, compile_kernels
from jitgrad.codegen.cuda.target import Target
from jitgrad.codegen.cuda.toolchain import ToolchainError
from jitgrad.codegen.loops.ir import Kernel
from jitgrad.ir.graph import Graph

QUICK = 2  # samples of an op


def formulas(cases: dict) -> Callable[[], list[Graph]]:
    """The graphs of some formulas."""
    return lambda: [build(*case) for case in cases.values()]


def families(everything: bool) -> dict[str, Callable[[], list[Graph]]]:
    """Graphs by family."""
    return {
        "formulas": formulas(CASES),
        "gathers": formulas(GATHERS),
        "scans": formulas(SCANS),
        "scatters": formulas(SCATTERS),
        **STEPS,
        "ops": lambda: [g for name in NAMES for g in op_graphs(name, 10**9 if everything else QUICK)],
    }


def compiled(kernels: Iterable[Kernel], target: Target) -> tuple[list[CudaKernel], list[str]]:
    """What compiled, and the first lines of what went wrong."""
    made, failed = [], []
    for kernel in kernels:
        try:
            made += compile_kernels([kernel], "default", target)
        except ToolchainError:
            raise
        except Exception as error:  # a failure is a row of the table
            failed.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
    return made, failed


def rows(everything: bool, targets: list[Target]) -> list[dict]:
    """One row per family and target, printed as they come."""
    table = []
    for family, graphs_of in families(everything).items():
        graphs = graphs_of()
        kernels = list(dict.fromkeys(k for g in graphs for k in kernels_of(g)))
        for target in targets:
            start = time.perf_counter()
            made, failed = compiled(kernels, target)
            seconds = time.perf_counter() - start
            row = {
                "family": family, "target": target.architecture, "graphs": len(graphs), "kernels": len(kernels),
                "compiled": len(made), "failed": failed, "seconds": round(seconds, 1),
                "cubin_bytes": sum(len(k.cubin) for k in made),
            }  # fmt: skip
            table.append(row)
            counts = f"{len(graphs):4} graphs  {len(kernels):5} kernels  {len(made):5} compiled  {seconds:7.1f} s"
            print(f"{family:20} {target.architecture}  {counts}", *failed[:3], flush=True)
    return table


def main() -> None:
    """Print the table; exit with 1 if a kernel did not compile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--capability", nargs="+", default=["8.0", "9.0"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    targets = [Target(tuple(map(int, c.split(".")))) for c in given.capability]
    try:
        table = rows(given.all, targets)
    except ToolchainError as error:
        sys.exit(str(error))
    for target in targets:
        own = [r for r in table if r["target"] == target.architecture]
        done, all_of = sum(r["compiled"] for r in own), sum(r["kernels"] for r in own)
        print(f"{target.architecture}: {done} of {all_of} kernels compiled to PTX and cubin")
    if given.json:
        given.json.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    sys.exit(any(r["failed"] for r in table))


if __name__ == "__main__":
    main()
