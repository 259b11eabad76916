"""Pruning: masks, names of state, what a second pruning does, removal and errors, as in PyTorch."""

import copy
import importlib
import pickle

import numpy as np
import pytest
from nn_layers import array

import jitgrad as jg

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch
PRUNE = {jg: jg.nn.utils.prune, torch: importlib.import_module("torch.nn.utils.prune")}


def conv(lib):
    layer = lib.nn.Conv2d(2, 4, 2, dtype=lib.float64)
    with lib.no_grad():
        layer.weight.copy_(lib.tensor(array((4, 2, 2, 2), 1)))
        layer.bias.copy_(lib.tensor(array((4,), 2)))
    return layer


def scores(lib):
    return lib.tensor(array((4, 2, 2, 2), 3))


def rows_of_large_sums(lib):
    class Rows(PRUNE[lib].BasePruningMethod):
        PRUNING_TYPE = "structured"
        dim = 0

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask[t.flatten(1).sum(1).argmax()] = 0
            return mask

    return Rows


STEPS = {
    "identity": lambda lib, p, m: p.identity(m, "weight"),
    "l1 count": lambda lib, p, m: p.l1_unstructured(m, "weight", amount=5),
    "l1 fraction": lambda lib, p, m: p.l1_unstructured(m, "weight", 0.3),
    "l1 none": lambda lib, p, m: p.l1_unstructured(m, "weight", 0),
    "l1 all": lambda lib, p, m: p.l1_unstructured(m, "weight", 1.0),
    "l1 scores": lambda lib, p, m: p.l1_unstructured(m, "weight", 0.4, importance_scores=scores(lib)),
    "l2 rows": lambda lib, p, m: p.ln_structured(m, "weight", 1, n=2, dim=0),
    "l1 columns": lambda lib, p, m: p.ln_structured(m, "weight", 0.5, n=1, dim=-1),
    "linf scores": lambda lib, p, m: p.ln_structured(
        m, "weight", 2, n=float("inf"), dim=0, importance_scores=scores(lib)
    ),
    "ln none": lambda lib, p, m: p.ln_structured(m, "weight", 0, n=2, dim=0),
    "mask": lambda lib, p, m: p.custom_from_mask(m, "weight", (scores(lib) > 0).int()),
    "own method": lambda lib, p, m: rows_of_large_sums(lib).apply(m, "weight"),
    "bias": lambda lib, p, m: p.l1_unstructured(m, "bias", 2),
    "global": lambda lib, p, m: p.global_unstructured(
        [(m, "weight"), (m, "bias")], pruning_method=p.L1Unstructured, amount=0.5
    ),
    "global scores": lambda lib, p, m: p.global_unstructured(
        [(m, n) for n in ("weight", "bias")], p.L1Unstructured, {(m, "weight"): scores(lib)}, amount=7
    ),
}


def state(module):
    return {k: v.detach().numpy().tolist() for k, v in module.state_dict().items()}


def output(lib, module):
    module.zero_grad()
    y = module(lib.tensor(array((1, 2, 3, 3), 5)))
    (y * y).sum().backward()
    return [y.detach().numpy(), *[p.grad.numpy() for p in module.parameters() if p.grad is not None]]


@pytest.mark.parametrize("second", [None, "l1 count", "l2 rows", "mask", "own method", "global"])
@pytest.mark.parametrize("first", STEPS)
def test_as_in_torch(first, second):
    if first == "l1 all" and second not in (None, "mask", "global"):
        pytest.skip("nothing is left to prune")
    modules = {}
    for lib in (jg, torch):
        m = modules[lib] = conv(lib)
        STEPS[first](lib, PRUNE[lib], m)
        if second is not None:
            STEPS[second](lib, PRUNE[lib], m)
        assert PRUNE[lib].is_pruned(m) and PRUNE[lib].is_pruned(lib.nn.Sequential(m))
    mine, theirs = modules[jg], modules[torch]
    assert state(mine) == state(theirs)
    for a, b in zip(output(jg, mine), output(torch, theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    for lib, m in modules.items():
        for name in ("weight", "bias"):
            if f"{name}_orig" in dict(m.named_parameters()):
                before, original = getattr(m, name).tolist(), getattr(m, f"{name}_orig")
                PRUNE[lib].remove(m, name)
                assert getattr(m, name) is original and original.tolist() == before
        assert not PRUNE[lib].is_pruned(m) and not m._forward_pre_hooks and type(m) is lib.nn.Conv2d
    assert sorted(state(mine)) == sorted(state(theirs))


@pytest.mark.parametrize("amount", [3, 0.5])
def test_at_random(amount):
    jg.manual_seed(0)
    m = conv(jg)
    jg.nn.utils.prune.random_unstructured(m, "weight", amount)
    count = 3 if amount == 3 else 16
    assert (m.weight_mask == 0).sum() == count == (m.weight == 0).sum()
    jg.nn.utils.prune.random_structured(m, "weight", 2, dim=0)
    empty = (m.weight_mask.flatten(1).sum(1) == 0).sum()
    assert empty == 2


def test_containers():
    for lib in (jg, torch):
        p, m = PRUNE[lib], conv(lib)
        p.l1_unstructured(m, "weight", 2)
        p.ln_structured(m, "weight", 1, 2, 0)
        (hook,) = (getattr(h, "function", h) for h in m._forward_pre_hooks.values())
        assert isinstance(hook, p.PruningContainer) and len(hook) == 2
        assert [type(h).__name__ for h in hook] == ["L1Unstructured", "LnStructured"]
        assert isinstance(hook[0], p.L1Unstructured) and hook._tensor_name == "weight"
        t = lib.tensor([1.0, -3.0, 2.0])
        assert p.L1Unstructured(amount=1).prune(t).tolist() == [0, -3, 2]
        assert p.L1Unstructured(1).prune(t, importance_scores=lib.tensor([5.0, 1.0, 2.0])).tolist() == [1, 0, 2]
        assert p.L1Unstructured(1).prune(t, default_mask=lib.tensor([1.0, 1.0, 0.0])).tolist() == [0, -3, 0]


ERRORS = [
    lambda lib, p, m: p.l1_unstructured(m, "weight", "x"),
    lambda lib, p, m: p.l1_unstructured(m, "weight", 1.5),
    lambda lib, p, m: p.l1_unstructured(m, "weight", -1),
    lambda lib, p, m: p.l1_unstructured(m, "weight", 1000),
    lambda lib, p, m: p.l1_unstructured(m, "missing", 1),
    lambda lib, p, m: p.ln_structured(m, "bias", 1, 2, 0),
    lambda lib, p, m: p.ln_structured(m, "weight", 1, 2, 4),
    lambda lib, p, m: p.ln_structured(m, "weight", 9, 2, 0),
    lambda lib, p, m: p.l1_unstructured(m, "weight", 1, importance_scores=lib.ones(2)),
    lambda lib, p, m: p.custom_from_mask(m, "weight", lib.ones(2)),
    lambda lib, p, m: p.remove(m, "weight"),
    lambda lib, p, m: p.global_unstructured(3, p.L1Unstructured, amount=1),
    lambda lib, p, m: p.global_unstructured([(m, "weight")], p.LnStructured, amount=1, n=2),
    lambda lib, p, m: p.global_unstructured([(m, "weight")], p.L1Unstructured, [], amount=1),
    lambda lib, p, m: p.PruningContainer().add_pruning_method(3),
    lambda lib, p, m: p.BasePruningMethod(),
    lambda lib, p, m: p.L1Unstructured(1).prune(lib.ones(3), importance_scores=lib.ones(2)),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    raised = []
    for lib in (torch, jg):
        m = conv(lib)
        before = state(m)
        with pytest.raises(Exception) as error:
            ERRORS[case](lib, PRUNE[lib], m)
        raised.append(error.value)
        assert lib is torch or (state(m) == before and not PRUNE[lib].is_pruned(m))
    theirs, ours = raised
    assert isinstance(ours, type(theirs)), f"PyTorch raises {theirs!r}; jitgrad {ours!r}"


def test_copies_pickles_and_compiled_modules():
    m = jg.nn.utils.prune.l1_unstructured(conv(jg), "weight", 5)
    x = jg.tensor(array((1, 2, 3, 3), 5))
    want = m(x).tolist()
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert other(x).tolist() == want and jg.nn.utils.prune.is_pruned(other)
        jg.nn.utils.prune.remove(other, "weight")
        assert other(x).tolist() == want and jg.nn.utils.prune.is_pruned(m)
    f = jg.compile(m, fullgraph=True)
    np.testing.assert_allclose(f(x).tolist(), want, rtol=1e-12)
    jg.nn.utils.prune.l1_unstructured(m, "weight", 5)
    np.testing.assert_allclose(f(x).tolist(), jg.nn.functional.conv2d(x, m.weight, m.bias).tolist(), rtol=1e-12)
    optimizer = jg.optim.SGD(m.parameters(), lr=0.001)

    @jg.compile(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        loss = m(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).item() for _ in range(3)]
    assert losses[0] > losses[1] > losses[2] and (m.weight == 0).sum() == 10
