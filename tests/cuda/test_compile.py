"""Kernels compile to PTX and cubin for real: the quick slice here, all of it with --slow.

`python bench/cuda_compile.py` prints the totals by family.
"""

import importlib.util

import pytest
from codegen.formulas import CASES, build
from codegen.ordered import ORDERED
from cuda_zoo import STEPS, kernels_of, op_graphs
from ops.test_compiled import NAMES

from jitgrad.codegen.cuda.kernels import compile_kernels
from jitgrad.codegen.cuda.target import Target
from jitgrad.ir import dtypes
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.math import Exp
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.types import TensorType

pytestmark = pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")

TARGETS = {"sm_80": Target((8, 0)), "sm_90": Target((9, 0))}
QUICK = [
    "softmax rows",
    "layer norm",
    "relu backward",
    "sum all",
    "few columns",
    "argmax",
    "transposed",
    "pieces",
    "gather",
    "index add",
    "scatter add rows",
    "cumsum few columns",
]


def compile_all(graphs, target, numerics="default"):
    """Every kernel of the graphs, each once."""
    kernels = dict.fromkeys(k for g in graphs for k in kernels_of(g))
    for made in compile_kernels(list(kernels), numerics, target):
        assert f".target {target.architecture}" in made.ptx
        assert f".entry {made.entry}(" in made.ptx
        assert made.cubin.startswith(b"\x7fELF")
    return len(kernels)


@pytest.mark.parametrize("case", QUICK)
def test_formulas(case):
    assert compile_all([build(*{**CASES, **ORDERED}[case])], TARGETS["sm_90"])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [*CASES, *ORDERED])
def test_all_formulas(case, target):
    compile_all([build(*{**CASES, **ORDERED}[case])], TARGETS[target])


def test_strict_numerics_never_contract():
    graph = build(*CASES["layer norm"])
    (made, *_) = compile_kernels(kernels_of(graph), "strict", TARGETS["sm_80"])
    assert "fma.rn.f32" not in made.ptx


def test_half_types_and_small_integers():
    types = [TensorType((8,), d) for d in (dtypes.float16, dtypes.bfloat16, dtypes.int8, dtypes.uint8, dtypes.bool_)]

    def formula(b, *xs):
        numbers = [b(Convert(dtypes.float16), x) for x in xs]
        total = numbers[0]
        for x in numbers[1:]:
            total = b(Add(), total, x)
        return (
            b(Exp(), total),
            b(Convert(dtypes.bfloat16), total),
            b(Convert(dtypes.int8), total),
            b(Add(), xs[2], xs[2]),
        )

    compile_all([build(types, formula)], TARGETS["sm_80"])


def test_compiled_kernels_are_kept():
    kernels = kernels_of(build(*CASES["gelu"]))
    first = compile_kernels(kernels, "default", TARGETS["sm_90"])
    assert all(a is b for a, b in zip(first, compile_kernels(kernels, "default", TARGETS["sm_90"])))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", STEPS)
def test_steps(family, target):
    assert compile_all(STEPS[family](), TARGETS[target])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_ops(name, target):
    graphs = op_graphs(name, 8)
    if not graphs:
        pytest.skip("complex numbers run by the reference")
    compile_all(graphs, TARGETS[target])
