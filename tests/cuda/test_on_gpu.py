"""Formulas, gathers, scans and scatters on a real device: the interpreter's values, and the same bits twice."""

import numpy as np
import pytest
from codegen.formulas import CASES, arrays, build
from codegen.ordered import ORDERED

from jitgrad.codegen.compile import compile_graph
from jitgrad.codegen.cuda.runtime.copies import download
from jitgrad.ir import interpreter
from jitgrad.ir.types import Device

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("case", [*CASES, *ORDERED])
def test_formulas(case):
    types, formula = {**CASES, **ORDERED}[case]
    graph, inputs = build(types, formula), arrays(types)
    run = compile_graph(graph, device=Device("cuda", 0))
    have, again = ([np.array(download(x)) for x in run(inputs)] for _ in range(2))
    for h, a, want in zip(have, again, interpreter.run(graph, inputs), strict=True):
        assert h.tobytes() == a.tobytes()
        wide = 2e-5 if h.dtype.itemsize > 2 else 2e-3  # float32 sums of some hundred terms; float16 rounded once
        np.testing.assert_allclose(h.astype("f8"), np.asarray(want).astype("f8"), rtol=wide, atol=wide)
