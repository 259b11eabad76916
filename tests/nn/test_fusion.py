"""Batch normalisation folded into the layer in front; modules without initial values; calls with other parameters."""

import warnings

import numpy as np
import pytest
from nn_layers import array

import jitgrad as jg

torch = pytest.importorskip("torch")
from nn_pair import copy_weights  # noqa: E402

pytestmark = pytest.mark.torch


def pair(lib, layer, norm):
    made = lib.nn.Sequential(layer(lib), norm(lib)).eval()
    with lib.no_grad():
        for k, (name, t) in enumerate(made.state_dict().items()):
            if t.is_floating_point():
                value = lib.tensor(array(tuple(t.shape), k))
                t.copy_(value.abs() + 0.1 if "var" in name else value)
    return made


CASES = {
    "Conv1d": (lambda lib: lib.nn.Conv1d(2, 4, 3), lambda lib: lib.nn.BatchNorm1d(4), (1, 2, 5)),
    "Conv2d": (lambda lib: lib.nn.Conv2d(2, 4, 3, bias=False), lambda lib: lib.nn.BatchNorm2d(4), (1, 2, 5, 4)),
    "groups": (lambda lib: lib.nn.Conv2d(2, 4, 3, groups=2), lambda lib: lib.nn.BatchNorm2d(4, eps=0.1), (1, 2, 5, 4)),
    "Conv3d": (
        lambda lib: lib.nn.Conv3d(2, 3, 2), lambda lib: lib.nn.BatchNorm3d(3, affine=False), (1, 2, 3, 4, 3),
    ),
    "ConvTranspose2d": (lambda lib: lib.nn.ConvTranspose2d(2, 3, 3), lambda lib: lib.nn.BatchNorm2d(3), (1, 2, 4, 3)),
    "Linear": (lambda lib: lib.nn.Linear(3, 4), lambda lib: lib.nn.BatchNorm1d(4), (5, 3)),
    "Linear without bias": (lambda lib: lib.nn.Linear(3, 4, bias=False), lambda lib: lib.nn.BatchNorm1d(4), (5, 3)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_fusion(case):
    layer, norm, shape = CASES[case]
    fused = {}
    for lib in (jg, torch):
        model = pair(lib, layer, norm)
        utils = lib.nn.utils
        if "Linear" in case:
            fused[lib] = utils.fuse_linear_bn_eval(*model)
        else:
            fused[lib] = utils.fuse_conv_bn_eval(*model, transpose="Transpose" in case)
        x = lib.tensor(array(shape, 9)).float()
        np.testing.assert_allclose(fused[lib](x).detach(), model(x).detach(), rtol=1e-4, atol=1e-5)
        assert fused[lib].weight is not model[0].weight and isinstance(fused[lib].bias, lib.nn.Parameter)
    assert repr(fused[jg]) == repr(fused[torch]) and list(fused[jg].state_dict()) == list(fused[torch].state_dict())
    for a, b in zip(fused[jg].parameters(), fused[torch].parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
        assert a.requires_grad == b.requires_grad and str(a.dtype)[-7:] == str(b.dtype)[-7:]


def test_errors_of_fusion():
    for lib in (jg, torch):
        utils, nn = lib.nn.utils, lib.nn
        conv, norm = nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2)
        with pytest.raises(AssertionError, match="only for eval"):
            utils.fuse_conv_bn_eval(conv, norm)
        with pytest.raises(AssertionError):
            utils.fuse_conv_bn_eval(conv.eval(), nn.BatchNorm1d(2, track_running_stats=False).eval())
        with pytest.raises(AssertionError, match="out_features"):
            utils.fuse_linear_bn_eval(nn.Linear(3, 3).eval(), norm.eval())


def test_skip_init():
    for lib in (jg, torch):
        lib.manual_seed(3)
        want = lib.rand(1).item()
        lib.manual_seed(3)
        layer = lib.nn.utils.skip_init(lib.nn.Linear, 5, 1, bias=False, dtype=lib.float64)
        assert lib.rand(1).item() == want
        assert layer.weight.shape == (1, 5) and layer.weight.dtype is lib.float64 and layer.weight.requires_grad
        for wrong, error in ((int, RuntimeError), (lib.nn.Flatten, RuntimeError), (3, TypeError)):
            with pytest.raises(error):
                lib.nn.utils.skip_init(wrong)


def test_older_names():
    for lib in (jg, torch):
        p = lib.ones(2, requires_grad=True)
        p.grad = lib.tensor([3.0, 4.0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert lib.nn.utils.clip_grad_norm(p, 1.0).item() == 5
        assert [w.category for w in caught] == [FutureWarning]
    assert jg.nn.utils.convert_parameters.parameters_to_vector is jg.nn.utils.parameters_to_vector


# calls with other parameters ----------------------------------------------------------------------------------


def called(lib, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return lib.nn.utils.stateless.functional_call(*args, **kwargs)


def tied(lib):
    model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2), lib.nn.Linear(2, 2))
    model[2].weight = model[0].weight
    return model.double()


def test_calls_with_other_parameters():
    mine, theirs = tied(jg), tied(torch)
    copy_weights(mine, theirs)
    results = []
    for lib, model in ((jg, mine), (torch, theirs)):
        x = lib.tensor(array((3, 2), 1))
        before = {k: v.clone() for k, v in model.state_dict().items()}
        w = lib.tensor(array((2, 2), 2), requires_grad=True)
        mean = lib.zeros(2, dtype=lib.float64)
        out = called(lib, model, {"0.weight": w, "1.running_mean": mean}, x)
        out.sum().backward()
        apart = called(lib, model, {"0.weight": w}, (x,), tie_weights=False)
        results.append([t.detach().numpy() for t in (out, apart, w.grad, mean)])
        assert all(p.grad is None for p in [model[0].weight])
        for name in ("0.weight", "1.running_mean", "2.weight"):
            after = model.state_dict()[name]
            assert "mean" in name or (after == before[name]).all()
        assert isinstance(model[0].weight, lib.nn.Parameter) and model[2].weight is model[0].weight
        with pytest.raises(ValueError, match="multiple values for keys"):
            called(lib, model, {"0.weight": w, "2.weight": w * 2}, x)
        with pytest.raises(RuntimeError, match=r"Missing key\(s\)"):
            called(lib, model, {"0.weight": w}, x, strict=True)
        with pytest.raises(RuntimeError, match=r"Unexpected key\(s\)"):
            called(lib, model, {**dict(model.named_parameters()), "x": w}, x, strict=True)
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_compiled_calls_with_other_parameters():
    model = jg.nn.Sequential(jg.nn.Linear(2, 3), jg.nn.Tanh(), jg.nn.Linear(3, 1))
    call_with = jg.nn.utils.stateless.call_with

    @jg.compile(fullgraph=True)
    def f(parameters, x):
        return call_with(model, parameters, x).sum()

    x = jg.tensor(array((4, 2), 1)).float()
    for k in range(3):
        given = {n: p.detach() * k for n, p in model.named_parameters()}
        np.testing.assert_allclose(f(given, x).item(), call_with(model, given, x).sum().item(), rtol=1e-5)
    assert len(f.explain().specialisations) == 1
    jg.compile(model)
    for k in range(3):
        given = {n: p.detach() * k for n, p in model.named_parameters()}
        np.testing.assert_allclose(call_with(model, given, x).sum().item(), f(given, x).item(), rtol=1e-5)
    assert model(x).shape == (4, 1)
