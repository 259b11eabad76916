"""Every module of PyTorch's module table: forward, gradients of parameters and inputs, state, text, compiled twice."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tables of samples need it")
from torch.testing._internal.common_modules import module_db  # noqa: E402

import jitgrad as jg  # noqa: E402

from .calls import value  # noqa: E402
from .comparing import array, check_same, cotangents, is_tensor, leaves  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # PyTorch warns of its own old options
]

# Drawn numbers differ, so that only shapes and dtypes can be compared.
RANDOM = {"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"}


def samples(info, training):
    found = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=training)
    return [s for s in found if s.forward_input is not None]


def pair(info, sample, training):
    """The module in both libraries, with the same state."""
    given = sample.constructor_input
    theirs = info.module_cls(*given.args, **given.kwargs).to(torch.float64)
    theirs.train(training)
    mine = getattr(jg.nn, info.name.removeprefix("nn."))(
        *[modules(x) for x in given.args], **{k: modules(v) for k, v in given.kwargs.items()}
    ).to(jg.float64)
    mine.train(training)
    return mine, theirs


def modules(x):
    """An argument for PyTorch's constructor as one for jitgrad's."""
    if isinstance(x, torch.nn.Module):
        raise pytest.skip.Exception("built from another module")
    if callable(x) and getattr(x, "__module__", "").startswith("torch"):
        return getattr(jg.nn.functional, x.__name__)
    return value(x)


def share(mine, theirs):
    """Give `mine` the parameters and buffers of `theirs`."""
    state = {k: value(v.detach()) for k, v in theirs.state_dict().items()}
    assert list(mine.state_dict()) == list(state)
    mine.load_state_dict(state)


def gradients(outs, inputs, module, lib, weights):
    wanted = [x for x in inputs if is_tensor(x) and x.requires_grad] + list(module.parameters())
    outs = [y for y in leaves(outs) if is_tensor(y) and y.requires_grad]
    if not outs or not wanted:
        return []
    return lib.autograd.grad(outs, wanted, weights[: len(outs)], allow_unused=True)


def leaves_of_their_own(given):
    """The arguments as leaves: some of the table's come from one another, and their gradients would mix."""

    def fresh(x):
        if isinstance(x, torch.Tensor):
            return x.detach().requires_grad_(x.requires_grad)
        return type(x)(map(fresh, x)) if type(x) in (list, tuple) else x

    return SimpleNamespace(args=tuple(map(fresh, given.args)), kwargs={k: fresh(x) for k, x in given.kwargs.items()})


def run(info, training, compiled):
    count = 0
    for sample in samples(info, training):
        try:
            mine, theirs = pair(info, sample, training)
        except pytest.skip.Exception:
            continue
        forward = leaves_of_their_own(sample.forward_input)
        xs = [*forward.args, *forward.kwargs.values()]
        args = [value(x, True) for x in forward.args]
        kwargs = {k: value(x, True) for k, x in forward.kwargs.items()}
        if info.is_lazy:
            theirs(*copy.deepcopy(forward.args))
            mine(*[value(x) for x in forward.args])
        share(mine, theirs)
        want = theirs(*forward.args, **forward.kwargs)
        function = jg.compile(lambda m, a, k: m(*a, **k)) if compiled else lambda m, a, k: m(*a, **k)
        for _ in range(2 if compiled else 1):
            if compiled:
                share(mine, pair(info, sample, training)[1] if info.name in RANDOM else theirs)
            got = function(mine, args, kwargs)
            check_same(got, want, values=info.name not in RANDOM, loosen=10)
        if info.name not in RANDOM:
            weights = cotangents([y for y in leaves(want) if is_tensor(y) and y.requires_grad])
            theirs_g = gradients(want, leaves(xs), theirs, torch, weights)
            mine_g = gradients(got, leaves([args, list(kwargs.values())]), mine, jg, [value(w) for w in weights])
            for g, w in zip(mine_g, theirs_g, strict=True):
                if g is None or w is None:
                    assert not any(t is not None and np.abs(array(t)).max(initial=0) > 0 for t in (g, w))
                else:
                    check_same(g, w, loosen=10)
        assert repr(mine) == repr(theirs)
        count += 1
    return count


CASES = [
    pytest.param(info, training, id=f"{info.name}-{'training' if training else 'evaluation'}")
    for info in module_db
    for training in ((True, False) if info.train_and_eval_differ else (True,))
]
# Compiled in every run: one of each kind; the others with --slow.
OFTEN = {
    "nn.BatchNorm2d", "nn.Conv2d", "nn.ConvTranspose2d", "nn.Embedding", "nn.GRUCell", "nn.LSTM", "nn.Linear",
    "nn.MaxPool2d", "nn.MultiheadAttention", "nn.CrossEntropyLoss", "nn.LayerNorm", "nn.ReLU", "nn.ReflectionPad2d",
    "nn.LazyConv2d",
}  # fmt: skip
COMPILED = [
    pytest.param(info, id=info.name, marks=[] if info.name in OFTEN else pytest.mark.slow) for info in module_db
]


@pytest.mark.parametrize(("info", "training"), CASES)
def test_module(info, training):
    assert run(info, training, compiled=False) or info.name == "nn.TransformerEncoder"


@pytest.mark.parametrize("info", COMPILED)
def test_compiled_module(info):
    run(info, True, compiled=True)
