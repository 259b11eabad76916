"""The source of a few kernels, as people read it. `--update-golden` rewrites the files."""

import pytest
from codegen.formulas import CASES, build, f32, gelu
from cuda_kernels import source_of
from cuda_zoo import kernels_of

from jitgrad.codegen.cuda.target import Target
from jitgrad.ir import dtypes
from jitgrad.ir.ops.arithmetic import Add
from jitgrad.ir.ops.random import RandomUniform
from jitgrad.ir.types import TensorType

INT64 = TensorType((), dtypes.int64)
GRAPHS = {
    "gelu": ([f32(8, 9)] * 2, lambda b, x, y: gelu(b, b(Add(), x, y))),
    "softmax": CASES["softmax rows"],
    "column_sum": CASES["relu backward"],
    "total": CASES["sum all"],
    "argmax": ([f32(8, 300)], CASES["argmax"][1]),
    "transposed": CASES["transposed"],
    "uniform": ([INT64, INT64], lambda b, s, o: b(RandomUniform((4, 9), dtypes.float32), s, o)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_source(name, golden):
    kernels = kernels_of(build(*GRAPHS[name]))
    golden(f"cuda/{name}.txt", "\n".join(source_of(k, Target((9, 0))) for k in kernels))
