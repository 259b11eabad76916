"""Medians, quantiles, modes, scans, histograms and searching: what samples of PyTorch's table don't show."""

import math

import numpy as np
import pytest

import jitgrad as jg

NAN = math.nan


def gradient(function, values):
    x = jg.tensor(values, dtype=jg.float64, requires_grad=True)
    return jg.autograd.grad(function(x).sum(), x)[0].tolist()


def test_equal_elements_share_the_gradient_of_a_median_of_all():
    assert gradient(jg.median, [2.0, 1.0, 2.0, 3.0, 2.0]) == [1 / 3, 0.0, 1 / 3, 0.0, 1 / 3]
    assert gradient(jg.nanmedian, [1.0, NAN, 3.0, 1.0]) == [0.5, 0.0, 0.0, 0.5]
    assert sum(gradient(lambda x: jg.median(x, 0).values, [2.0, 1.0, 2.0])) == 1.0


@pytest.mark.parametrize(
    ("values", "median", "nanmedian"),
    [([3.0, 1.0, 2.0, 4.0], 2.0, 2.0), ([NAN, 1.0, 5.0], NAN, 1.0), ([NAN], NAN, NAN), ([], NAN, NAN)],
)
def test_medians_with_nan_and_of_nothing(values, median, nanmedian):
    x = jg.tensor(values)
    np.testing.assert_equal(jg.median(x).item(), median)
    np.testing.assert_equal(jg.nanmedian(x).item(), nanmedian)


def test_median_names_where_nan_is():
    assert jg.median(jg.tensor([1.0, NAN, 0.0, NAN]), 0).indices.item() == 1
    assert jg.nanmedian(jg.tensor([5.0, NAN, 0.0, 1.0]), 0).indices.item() == 3


def test_reducing_nothing_is_an_index_error():
    for function in (jg.median, jg.nanmedian, jg.mode):
        with pytest.raises(IndexError, match="non-zero size"):
            function(jg.zeros(0, 3), 0)
        assert function(jg.zeros(0, 3), 1).values.shape == (0,)


@pytest.mark.torch
@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles(name, interpolation):
    import torch

    values = np.random.default_rng(0).standard_normal((4, 5))
    values[1, 2] = NAN
    levels = [0.0, 0.3, 0.5, 1.0]
    for dim in (None, 0, 1, -1):
        for keepdim in (False, True):
            for q in (0.25, levels):
                t = torch.tensor(values, requires_grad=True)
                x = jg.tensor(values, requires_grad=True)
                tq, xq = (
                    (torch.tensor(q, dtype=torch.float64), jg.tensor(q, dtype=jg.float64)) if q is levels else (q, q)
                )
                want = getattr(torch, name)(t, tq, dim, keepdim, interpolation=interpolation)
                have = getattr(jg, name)(x, xq, dim, keepdim, interpolation=interpolation)
                np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=1e-12)
                compiled = jg.compile(lambda x, q: getattr(jg, name)(x, q, dim, keepdim, interpolation=interpolation))  # noqa: B023
                np.testing.assert_allclose(compiled(x.detach(), xq).numpy(), want.detach().numpy(), rtol=1e-12)
                want.nansum().backward()
                have.nansum().backward()
                np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-12, equal_nan=True)


def test_quantiles_refuse_what_pytorch_refuses():
    x = jg.rand(3)
    for q, message in (
        (1.5, "range"),
        (jg.tensor([0.5, 1.5]), "between"),
        (jg.rand(2, 2), "1D"),
        (jg.rand(1).double(), "dtype"),
    ):
        with pytest.raises(RuntimeError, match=message):
            jg.quantile(x, q)
    with pytest.raises(RuntimeError, match="float or double"):
        jg.quantile(jg.arange(3), 0.5)
    with pytest.raises(RuntimeError, match="non-empty"):
        jg.quantile(jg.rand(0), 0.5)


def test_running_extremes_take_the_last_of_equals_and_keep_nan():
    values, places = jg.cummax(jg.tensor([1.0, 1.0, NAN, 2.0, NAN]), 0)
    np.testing.assert_array_equal(values.numpy(), [1.0, 1.0, NAN, NAN, NAN])
    assert places.tolist() == [0, 1, 2, 2, 4]
    assert jg.cummin(jg.tensor(3.0), 0).values.item() == 3.0


def test_logcumsumexp_neither_overflows_nor_loses_small_terms():
    x = jg.tensor([-2000.0, -1000.0, 1000.0], dtype=jg.float64, requires_grad=True)
    y = jg.logcumsumexp(x, 0)
    assert y.tolist() == [-2000.0, -1000.0, 1000.0]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.torch
def test_histograms_against_pytorch():
    import torch

    x = np.random.default_rng(0).uniform(-1, 2, (50, 2)).astype(np.float32)
    weight = np.abs(x[:, 0]).copy()
    edges = np.array([-1.0, 0.0, 0.5, 2.0], np.float32)
    for density in (False, True):
        for options in ({"bins": 5}, {"bins": 4, "range": (-0.5, 1.0)}):
            have = jg.histogram(jg.tensor(x[:, 0]), weight=jg.tensor(weight), density=density, **options)
            want = torch.histogram(torch.tensor(x[:, 0]), weight=torch.tensor(weight), density=density, **options)
            np.testing.assert_allclose(have.hist.numpy(), want.hist.numpy(), rtol=1e-5)
            np.testing.assert_allclose(have.bin_edges.numpy(), want.bin_edges.numpy(), rtol=1e-6)
        have = jg.histogramdd(jg.tensor(x), [jg.tensor(edges), jg.tensor(edges)], density=density)
        want = torch.histogramdd(torch.tensor(x), [torch.tensor(edges), torch.tensor(edges)], density=density)
        np.testing.assert_allclose(have.hist.numpy(), want.hist.numpy(), rtol=1e-5)
    assert jg.histc(jg.tensor([1.0, 2.0, NAN]), 2, 0, 3).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="not finite"):
        jg.histc(jg.tensor([1.0, NAN]), 2)


def test_searching():
    edges = jg.tensor([1.0, 2.0, 2.0, 4.0])
    assert jg.searchsorted(edges, jg.tensor([2.0, NAN, 5.0])).tolist() == [1, 4, 4]
    assert jg.searchsorted(edges, 2, right=True).item() == 3
    assert jg.searchsorted(edges.flip(0), jg.tensor([2.0]), sorter=jg.tensor([3, 2, 1, 0])).tolist() == [1]
    assert jg.bucketize(jg.tensor([3]), edges, out_int32=True).dtype is jg.int32
    with pytest.raises(RuntimeError, match="opposites"):
        jg.searchsorted(edges, edges, right=True, side="left")
    assert jg.isin(jg.tensor([1.0, NAN]), jg.tensor([NAN, 1.0])).tolist() == [True, False]
    assert jg.isin(2, jg.tensor([1, 2])).item() is True


def test_unique_along_a_dim_is_lexicographic():
    x = jg.tensor([[2, 1], [1, 5], [2, 1], [1, 0]])
    values, inverse, counts = jg.unique(x, return_inverse=True, return_counts=True, dim=0)
    assert values.tolist() == [[1, 0], [1, 5], [2, 1]]
    assert inverse.tolist() == [2, 1, 2, 0] and counts.tolist() == [1, 1, 2]
    assert jg.unique(jg.tensor([2.0, 1.0], dtype=jg.bfloat16)).tolist() == [1.0, 2.0]


def test_out_is_a_pair():
    out = jg.empty(0), jg.empty(0, dtype=jg.int64)
    values, indices = jg.sort(jg.tensor([3.0, 1.0]), out=out)
    assert values is out[0] and indices.tolist() == [1, 0]
    assert jg.max(jg.tensor([[1.0, 4.0]]), 1, out=(jg.empty(0), jg.empty(0, dtype=jg.int64))).indices.tolist() == [1]


def test_integrals_over_points_by_name():
    y, x = jg.tensor([1.0, 2.0]), jg.tensor([0.0, 3.0])
    assert jg.trapezoid(y, x=x).item() == 4.5
    assert jg.cumulative_trapezoid(y, x=x, axis=0).tolist() == [4.5]
    with pytest.raises(TypeError, match="not both"):
        jg.trapezoid(y, x, dx=2)
