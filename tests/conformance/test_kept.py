"""In-place writes after every operator of PyTorch's table, and a second backward: taken where PyTorch takes them."""

import warnings

import pytest

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tables of samples need it")

from conformance.kept import check  # noqa: E402
from conformance.modes import CASES, Nothing  # noqa: E402

SAMPLES = 2
KNOWN = {
    "ldexp": "PyTorch keeps the power and not its factor",
    "kron": "PyTorch's product is of copies",
    "unfold": "a recorded write to memory that is shown several times is refused: PyTorch's adds up",
    "polar": "PyTorch keeps the result",
    "take_along_dim": "PyTorch keeps a copy of the indices",
    "nn.functional.instance_norm": "PyTorch's weight is repeated for the samples first",
    "nn.functional.scaled_dot_product_attention": "in float64 PyTorch's products are of scaled copies",
    "nn.functional.linear_cross_entropy.chunked": "PyTorch computes gradients in the forward pass",
}


def _differentiable(case):
    dtypes = [d for d in (torch.float64, torch.complex128) if d in case.entry.dtypes]
    return dtypes[0] if case.function is not None and case.entry.supports_autograd and dtypes else None


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if _differentiable(case)])
def test_writes_that_pytorch_takes_are_taken(name):
    case = CASES[name]
    checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in case.samples(_differentiable(case), SAMPLES, True):
            try:
                check(case, sample)
            except Nothing:
                continue
            except AssertionError:
                if name not in KNOWN:
                    raise
                pytest.xfail(KNOWN[name])
            checked += 1
    if not checked:
        pytest.skip("has no gradient")
    assert name not in KNOWN, f"{name} agrees now: take it out of the list"
