"""Initial values: their distributions, and those of the layers."""

import contextlib
import math

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.nn import init


@pytest.mark.parametrize(
    ("fill", "bound", "deviation"),
    [
        (lambda w: init.uniform_(w, -2, 2), 2, 2 / math.sqrt(3)),
        (lambda w: init.normal_(w, 0, 3), None, 3),
        (init.xavier_uniform_, math.sqrt(6 / 500), math.sqrt(2 / 500)),
        (lambda w: init.xavier_normal_(w, 2.0), None, 2 * math.sqrt(2 / 500)),
        (lambda w: init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(6 / 300), math.sqrt(2 / 300)),
        (lambda w: init.kaiming_normal_(w, mode="fan_out"), None, math.sqrt(2 / 200)),
    ],
)
def test_distributions(fill, bound, deviation):
    jg.manual_seed(1)
    w = jg.nn.Parameter(jg.zeros(200, 300))
    assert fill(w) is w and w.requires_grad and w.is_leaf
    x = w.detach().numpy()
    assert abs(x.mean()) < 0.02 * deviation + 1e-3
    np.testing.assert_allclose(x.std(), deviation, rtol=0.02)
    assert bound is None or (np.abs(x).max() <= bound and np.abs(x).max() > 0.98 * bound)


def test_truncated_normal():
    jg.manual_seed(0)
    x = init.trunc_normal_(jg.zeros(100, 100), std=1.0, a=-1.0, b=0.5).numpy()
    assert x.min() >= -1 and x.max() <= 0.5 and x.min() < -0.98 and x.max() > 0.48
    with pytest.raises(ValueError, match="almost nothing"):
        init.trunc_normal_(jg.zeros(2), a=8.0, b=9.0)


def test_constants_gains_and_errors():
    assert init.ones_(jg.zeros(2)).tolist() == [1, 1] and init.zeros_(jg.ones(2)).tolist() == [0, 0]
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("leaky_relu", 1) == 1
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("nothing")
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(jg.zeros(3))
    with pytest.raises(ValueError, match="not supported"):
        init.kaiming_normal_(jg.zeros(3, 3), mode="fan")


def test_layers_start_as_in_pytorch():
    torch = pytest.importorskip("torch")
    jg.manual_seed(0)
    torch.manual_seed(0)
    for make in (
        lambda lib: lib.nn.Linear(400, 300),
        lambda lib: lib.nn.Conv2d(16, 64, 3, groups=2),
        lambda lib: lib.nn.ConvTranspose2d(16, 64, 3),
        lambda lib: lib.nn.Embedding(200, 300),
        lambda lib: lib.nn.BatchNorm2d(7),
    ):
        mine, theirs = make(jg).state_dict(), make(torch).state_dict()
        assert list(mine) == list(theirs)
        for name, t in theirs.items():
            a, b = mine[name].numpy(), t.numpy()
            assert a.shape == b.shape and a.dtype == b.dtype
            if a.size > 50:
                np.testing.assert_allclose(a.std(), b.std(), rtol=0.2)
                np.testing.assert_allclose(np.abs(a).max(), np.abs(b).max(), rtol=0.2)
            else:
                np.testing.assert_array_equal(a, b)


def test_matrices_to_start_from():
    """Identities equal PyTorch's; orthogonal matrices are orthonormal, and signs are even; sparse ones have zeros."""
    torch = pytest.importorskip("torch")
    for shape, groups in (((3, 5), None), ((4, 2), None), ((6, 2, 3), 3), ((4, 6, 3, 2), 2), ((2, 3, 1, 2, 3), 1)):
        here, there = jg.ones(shape), torch.ones(shape)
        if groups is None:
            init.eye_(here), torch.nn.init.eye_(there)
        else:
            init.dirac_(here, groups), torch.nn.init.dirac_(there, groups)
        np.testing.assert_array_equal(here.numpy(), there.numpy())
    jg.manual_seed(0)
    for shape in ((8, 3), (3, 8), (4, 2, 3), (6, 2, 2, 1)):
        w = jg.nn.Parameter(jg.empty(shape))
        assert init.orthogonal_(w, gain=2.0) is w and w.is_leaf
        flat = w.detach().numpy().reshape(shape[0], -1)
        flat = flat if flat.shape[0] >= flat.shape[1] else flat.T
        np.testing.assert_allclose(flat.T @ flat, 4 * np.eye(flat.shape[1]), atol=1e-5)
    assert abs(np.mean([init.orthogonal_(jg.empty(1, 1)).item() for _ in range(200)])) < 0.3
    x = init.sparse_(jg.ones(50, 40), 0.09, std=2.0).numpy()
    assert ((x == 0).sum(0) == 5).all() and abs(x[x != 0].std() - 2) < 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init.eye_(jg.zeros(3)), "2 dimensions"),
        (lambda: init.dirac_(jg.zeros(3, 3)), "3, 4, or 5 dimensions"),
        (lambda: init.dirac_(jg.zeros(3, 3, 3), 2), "divisible by groups"),
        (lambda: init.orthogonal_(jg.zeros(3)), "2 or more dimensions"),
        (lambda: init.sparse_(jg.zeros(3), 0.5), "2 dimensions"),
    ],
)
def test_shapes_that_such_matrices_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["xavier_uniform", "kaiming_normal", "eye", "sparse"])
def test_old_names_warn(name):
    options, values = {"sparse": {"sparsity": 0.5}}.get(name, {}), []
    for start in (getattr(init, f"{name}_"), getattr(init, name)):
        jg.manual_seed(1)
        expected = pytest.warns(FutureWarning, match=f"in favor of `nn.init.{name}_`")
        with contextlib.nullcontext() if start.__name__.endswith("_") else expected:
            values.append(start(jg.empty(4, 5), **options))
    assert jg.equal(*values)
