"""Runs kernels of every family in Numba's CUDA simulator, and prints what came of it as JSON.

A script, because the simulator is chosen for a whole process:

    NUMBA_ENABLE_CUDASIM=1 python tests/cuda/in_simulator.py

Results are compared with the interpreter of graphs, and with the CPU's machine code.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from codegen.formulas import Formula, build, f32
from codegen.ordered import GATHERS, SCANS, SCATTERS
from cuda_kernels import run_graph

from codegen import formulas
from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.cuda.kernels import compile_kernels, simulate
from jitgrad.codegen.cuda.target import SIMULATOR
from jitgrad.codegen.lower import GPU_TUNING, Tuning
from jitgrad.codegen.options import DEFAULT
from jitgrad.codegen.prepare import prepare
from jitgrad.ir import dtypes, interpreter
from jitgrad.ir.ops.argmax import ArgMax
from jitgrad.ir.ops.arithmetic import Add, Mul
from jitgrad.ir.ops.broadcast import Sum
from jitgrad.ir.ops.math import Exp, Tanh
from jitgrad.ir.ops.random import RandomBits, RandomUniform
from jitgrad.ir.ops.reduction import Amax, Prod
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.types import TensorType

Case = tuple[list[TensorType], Formula]


def typed(*shape: int, dtype: dtypes.DType) -> TensorType:
    """A type."""
    return TensorType(shape, dtype)


CHUNKED = replace(GPU_TUNING, long_row=4, few_rows=100, chunk=16)  # as if these rows were long
LONG = ("cumsum long", "cumsum few columns", "index add", "histogram")  # minutes in the simulator
SEED = [typed(dtype=dtypes.int64)] * 2
FAMILIES: dict[str, list[Case]] = {
    "pointwise": [
        ([f32(5, 7)] * 2, lambda b, x, y: formulas.gelu(b, b(Add(), x, y))),
        ([f32()] * 2, lambda b, x, y: b(Mul(), x, y)),
    ],
    "broadcast and index maps": [
        ([f32(5, 7), f32(7)], lambda b, x, y: b(Add(), x, formulas.spread(b, y, x))),
        ([f32(4, 6)], formulas.pieces),
        ([f32(4, 5)], formulas.positions),
        ([f32(3, 4, 5), f32(4, 3, 5)], lambda b, x, y: b(Add(), b(Permute((1, 0, 2)), x), y)),
        ([f32(35, 3, 34), f32(34, 3, 35)], lambda b, x, y: b(Add(), b(Permute((2, 1, 0)), x), y)),
    ],
    "row reductions": [
        ([f32(3, 40)], formulas.softmax),
        ([f32(6, 5)], formulas.softmax),
        ([f32(2, 3, 33)], formulas.layer_norm),
        ([f32(3, 2, 5, 6)], lambda b, x: b(Sum((0, 2, 3), False), x)),
        ([f32(2, 50)], lambda b, x: (b(ArgMax((1,), True), x), b(Prod((1,), False), x))),
    ],
    "long rows": [
        ([f32(3, 40)], formulas.softmax),
        ([f32(2, 3, 33)], formulas.layer_norm),
        ([f32(3, 2, 5, 6), f32(2)], formulas.moments),
    ],
    "split reductions": [
        ([f32(7, 9)], formulas.log_softmax_sum),
        ([f32(200,)], lambda b, x: (b(Sum((0,), False), x), b(ArgMax((0,), False), x))),
    ],
    "column reductions": [
        ([f32(70, 3)], lambda b, x: (b(Sum((0,), False), x), b(Amax((0,), True), b(Mul(), x, x)))),
        ([f32(20, 6)] * 2, formulas.relu_backward),
        ([f32(3, 9, 5)], lambda b, x: formulas.softmax(b, x, (1,))),
    ],
    "gathers": list(GATHERS.values()),
    "scans": [case for name, case in SCANS.items() if name not in LONG],
    "scatters": [case for name, case in SCATTERS.items() if name not in LONG],
    "random": [
        (SEED, lambda b, s, o: b(RandomUniform((4, 9), dtypes.float32), s, o)),
        (SEED, lambda b, s, o: b(RandomBits((11,), dtypes.int64), s, o)),
    ],
    "types": [
        ([typed(9, dtype=d)] * 2, lambda b, x, y, f=f: f(b, b(Mul(), x, y), y))
        for d, f in [
            (dtypes.float16, lambda b, x, y: b(Exp(), x)), (dtypes.bfloat16, lambda b, x, y: b(Tanh(), x)),
            (dtypes.float64, lambda b, x, y: b(Sum((0,), False), x)), (dtypes.int8, lambda b, x, y: b(Add(), x, y)),
            (dtypes.uint8, lambda b, x, y: b(Add(), x, y)), (dtypes.int32, lambda b, x, y: b(Convert(dtypes.bool_), x)),
            (dtypes.int64, lambda b, x, y: b(Sum((0,), False), x)), (dtypes.bool_, lambda b, x, y: x),
        ]
    ],
}  # fmt: skip


def simulated(launch: Any, arrays: list[Any]) -> None:
    """One launch in the simulator."""
    (kernel,) = compile_kernels([launch.kernel], "default", SIMULATOR)
    simulate(kernel, arrays, launch.slots, launch.params)


def agree(have: Any, want: Any) -> bool:
    """Equal, but for the order of sums and the last bits of functions."""
    have, want = np.asarray(have), np.asarray(want)
    if have.dtype.kind in "biu":
        return bool(np.array_equal(have, want))
    width = {2: 2.0**-7, 4: 2e-5, 8: 1e-12}[have.dtype.itemsize]
    return bool(np.allclose(have.astype(np.float64), want.astype(np.float64), rtol=width, atol=width))


def run_case(types: list[TensorType], formula: Formula, tuning: Tuning, counted: Callable[[Any], None]) -> bool:
    """Whether the simulator, the interpreter and the CPU agree."""
    graph, inputs = prepare(build(types, formula), DEFAULT), formulas.arrays(types, seed=3)

    def launch(one: Any, arrays: list[Any]) -> None:
        counted(one.kernel)
        simulated(one, arrays)

    have = run_graph(graph, inputs, launch, tuning)
    again = run_graph(graph, inputs, launch, tuning)
    repeats = all(a.tobytes() == b.tobytes() for a, b in zip(have, again))
    wanted = (interpreter.run(graph, inputs), compile_graph(graph)(inputs))
    return repeats and all(agree(h, w) for want in wanted for h, w in zip(have, want, strict=True))


def main() -> None:
    """All families."""
    report = {}
    for family, cases in FAMILIES.items():
        start, kernels = time.perf_counter(), set[Any]()
        tuning = CHUNKED if family == "long rows" else GPU_TUNING
        passed = [run_case(types, formula, tuning, kernels.add) for types, formula in cases]
        report[family] = {
            "cases": len(cases), "agree": sum(passed), "kernels": len(kernels),
            "seconds": round(time.perf_counter() - start, 1),
        }  # fmt: skip
    json.dump(report, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
