"""Every operator of PyTorch's table under `vmap`, in forward mode, and its gradient under `vmap`.

A slice of them always, all with `--slow`. What does not agree is listed, with its reason; an entry that is no longer
true fails, too.
"""

import warnings

import pytest

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tables of samples need it")

from conformance.modes import Nothing  # noqa: E402
from func.mapped_operators import CHECKS, cases  # noqa: E402

COUNTED = "the shape of the result, or the numbers that it is made of, are asked for sample by sample"
KNOWN = {
    ("vmap", "argwhere"): COUNTED,
    ("vmap", "nonzero_static"): COUNTED,
    ("vmap", "linspace.tensor_overload"): COUNTED,
    ("vmap", "logspace.tensor_overload"): COUNTED,
    ("vmap", "nn.functional.batch_norm"): "weights of samples of their own: then all results are",
    ("vmap", "nn.functional.batch_norm.without_cudnn"): "weights of samples of their own: then all results are",
    ("jvp", "nn.functional.ctc_loss"): "its gradient is that through log_softmax, as in PyTorch, and no derivative",
    ("jvp", "linalg.norm.subgradients_at_zero"): "forward mode has no finite answer there",
}
KNOWN_IN_FULL = {  # with samples that the quick slice does not come to
    ("vmap", "repeat_interleave"): COUNTED,
    ("vmap of vjp", "nn.functional.instance_norm"): "running statistics are one for all samples",
}
NAMES = sorted(cases())
QUICK = [(mode, name) for mode in CHECKS for name in NAMES[:: 12 if mode == "vmap" else 40]]


def check(mode, name, count, known):
    reason = known.get((mode, name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            CHECKS[mode](cases()[name], count)
        except Nothing:
            pytest.skip("does not apply")
        except Exception:
            if reason is None:
                raise
            pytest.xfail(reason)
    assert reason is None, f"agrees now: take {name} ({mode}) out of KNOWN"


@pytest.mark.parametrize(("mode", "name"), QUICK)
def test_quick(mode, name):
    check(mode, name, 1, KNOWN)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "name"), [(mode, name) for mode in CHECKS for name in NAMES])
def test_full(mode, name):
    check(mode, name, 8, KNOWN | KNOWN_IN_FULL)
