"""Every optimizer of PyTorch's table, with its options: the same paths, eagerly and compiled."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tables of samples need it")
from torch.testing._internal.common_optimizers import optim_db  # noqa: E402

import jitgrad as jg  # noqa: E402

from .calls import value  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

# `capturable` and `fused` choose among PyTorch's own kernels.
INPUTS = [
    pytest.param(info.name, given.kwargs, id=f"{info.name}-{given.desc}")
    for info in optim_db
    if not info.only_supports_sparse_grads
    for given in info.optim_inputs_func(device="cpu")
    if not {"capturable", "fused", "foreach"} & set(given.kwargs)
]


def problem(lib, name):
    """Parameters, and a loss of them whose gradients change."""
    rng = np.random.default_rng(1)
    shapes = [(4, 3), (3, 4)] if name == "Muon" else [(4, 3), (3,), ()]
    p = [lib.tensor(rng.standard_normal(s), requires_grad=True) for s in shapes]
    return p, lambda: sum(((q - 0.3) ** 2).sum() for q in p) + (p[0].sum() * p[1].sum()).sin()


def path(lib, name, kwargs, compiled=False):
    p, loss = problem(lib, name)
    converted = {k: value(v) if lib is jg else v for k, v in kwargs.items()}
    optimizer = getattr(lib.optim, name)(p, **converted)

    def closure():
        optimizer.zero_grad()
        y = loss()
        y.backward()
        return y

    def step():
        if name == "LBFGS":
            return optimizer.step(closure)
        y = closure()
        optimizer.step()
        return y.detach()

    run = jg.compile(step) if compiled else step
    for _ in range(5):
        run()
    return [q.detach().numpy() for q in p]


@pytest.mark.parametrize(("name", "kwargs"), INPUTS)
def test_optimizer(name, kwargs):
    # Muon iterates in bfloat16, of 8 bits
    rtol = 0.03 if name == "Muon" else 1e-6 if name == "LBFGS" else 1e-9
    want = path(torch, name, kwargs)
    for compiled in (False, True):
        for got, wanted in zip(path(jg, name, kwargs, compiled), want, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)
