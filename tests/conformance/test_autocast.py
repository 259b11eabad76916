"""Every operator of PyTorch's table under autocast on the CPU: results have the types that PyTorch's have."""

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tables of samples need it")

from conformance.calls import arguments  # noqa: E402
from conformance.comparing import dtype_name, is_tensor, leaves  # noqa: E402
from conformance.modes import CASES  # noqa: E402

import jitgrad as jg  # noqa: E402

SAMPLES = 3
KNOWN = {  # composed of other functions than PyTorch's, so that autocast meets others inside
    "nn.functional.linear_cross_entropy.chunked", "nn.functional.linear_cross_entropy.chunked_none", "svd_lowrank",
    "pca_lowrank", "linalg.pinv", "linalg.pinv.hermitian", "masked.prod",
}  # fmt: skip


def outcome(library, f, args, kwargs, enabled):
    with library.autocast("cpu", enabled=enabled):
        try:
            found = f(*args, **kwargs)
        except Exception as error:
            return type(error).__name__
    return [dtype_name(t) for t in leaves(found) if is_tensor(t)]


def narrowed(x, dtype):
    if isinstance(x, torch.Tensor):
        return x.detach().to(dtype) if x.dtype is torch.float32 else x.detach()
    if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        return type(x)(narrowed(i, dtype) for i in x)
    if isinstance(x, dict):
        return {k: narrowed(v, dtype) for k, v in x.items()}
    return x


def given(sample, dtype):
    """The sample's arguments for PyTorch and for jitgrad."""
    sample.input, sample.args, sample.kwargs = narrowed((sample.input, sample.args, sample.kwargs), dtype)
    return ([sample.input, *sample.args], sample.kwargs), arguments(sample)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", [name for name in CASES if name not in KNOWN])
def test_types(name, dtype):
    case = CASES[name]
    if case.function is None or torch.float32 not in case.entry.supported_dtypes("cpu"):
        pytest.skip("not there")
    for sample in case.samples(torch.float32, SAMPLES):
        theirs, ours = given(sample, dtype)
        want, plain = (outcome(torch, case.entry.op, *theirs, enabled) for enabled in (True, False))
        if isinstance(want, str):
            continue  # what fails there may work here
        if want != plain or outcome(jg, case.function, *ours, False) == plain:
            assert outcome(jg, case.function, *ours, True) == want
