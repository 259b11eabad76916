"""Parametrizations: values, gradients, names of state and errors as in PyTorch; compiled, they are in the graph."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from nn_layers import array

import jitgrad as jg

torch = pytest.importorskip("torch")
from nn_pair import copy_weights  # noqa: E402

pytestmark = pytest.mark.torch
P = {jg: jg.nn.utils.parametrize, torch: torch.nn.utils.parametrize}


def symmetric(lib):
    class Symmetric(lib.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    return Symmetric()


def exponential(lib):
    class Exponential(lib.nn.Module):
        def forward(self, x):
            return x.exp()

        def right_inverse(self, x):
            return x.log()

    return Exponential()


def parts(lib):
    class Sum(lib.nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, x):
            return x * 0.25, x * 0.75

    return Sum()


def resized(lib):
    class Rows(lib.nn.Module):
        def forward(self, x):
            return x[:1]

    return Rows()


def linear(lib):
    layer = lib.nn.Linear(3, 3)
    with lib.no_grad():
        layer.weight.copy_(lib.tensor(array((3, 3), 1)).abs() + 0.1)
        layer.bias.copy_(lib.tensor(array((3,), 2)))
    return layer.double()


def close(a, b, rtol=1e-9, atol=1e-10):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=atol)


def same_gradients(mine, theirs):
    ours, others = dict(mine.named_parameters()), dict(theirs.named_parameters())
    assert list(ours) == list(others)
    for name, p in ours.items():
        assert (p.grad is None) == (others[name].grad is None)
        if p.grad is not None:
            close(p.grad, others[name].grad, 1e-6, 1e-8)


def state(module):
    return {k: list(v.shape) for k, v in module.state_dict().items()}


def applied(lib, *made):
    layer = linear(lib)
    for parametrization in made:
        P[lib].register_parametrization(layer, "weight", parametrization)
    return layer


CASES = {
    "one": lambda lib: applied(lib, symmetric(lib)),
    "inverse": lambda lib: applied(lib, exponential(lib)),
    "two": lambda lib: applied(lib, exponential(lib), symmetric(lib)),
    "parts": lambda lib: applied(lib, parts(lib)),
    "parts and one": lambda lib: applied(lib, parts(lib), symmetric(lib)),
}


@pytest.mark.parametrize("case", CASES)
def test_as_in_torch(case):
    mine, theirs = CASES[case](jg), CASES[case](torch)
    assert state(mine) == state(theirs) and repr(mine) == repr(theirs)
    copy_weights(mine, theirs)
    close(mine.weight, theirs.weight)
    x = array((2, 3), 5)
    for lib, layer in ((jg, mine), (torch, theirs)):
        (layer(lib.tensor(x)) ** 2).sum().backward()
    same_gradients(mine, theirs)
    for lib, layer in ((jg, mine), (torch, theirs)):
        if case in ("inverse", "parts"):
            layer.weight = lib.full((3, 3), 2.0, dtype=lib.float64)
            close(layer.weight, np.full((3, 3), 2.0).view(_Array))
        with P[lib].cached():
            assert layer.weight is layer.weight
        assert P[lib].is_parametrized(layer) and P[lib].is_parametrized(layer, "weight")
        assert not P[lib].is_parametrized(layer, "bias")
        assert P[lib].type_before_parametrizations(layer) is lib.nn.Linear
        P[lib].remove_parametrizations(layer, "weight")
        assert type(layer) is lib.nn.Linear and not P[lib].is_parametrized(layer)
    assert state(mine) == state(theirs) and repr(mine) == repr(theirs)
    close(mine.weight, theirs.weight)
    assert isinstance(mine.weight, jg.nn.Parameter)


class _Array(np.ndarray):
    """An array that is compared as tensors are."""

    def detach(self):
        return self

    def numpy(self):
        return np.asarray(self)


def test_the_parameter_stays_the_same_object():
    layer = linear(jg)
    weight, values = layer.weight, layer.weight.tolist()
    jg.nn.utils.parametrize.register_parametrization(layer, "weight", symmetric(jg))
    assert layer.parametrizations.weight.original is weight
    jg.nn.utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight is weight and weight.tolist() == values


def test_several_tensors_of_a_module():
    for lib in (jg, torch):
        layer = linear(lib)
        for name in ("weight", "bias"):
            P[lib].register_parametrization(layer, name, exponential(lib) if name == "weight" else lib.nn.Softplus())
        other = copy.deepcopy(layer) if lib is jg else None  # PyTorch's copies lose what the original loses
        P[lib].remove_parametrizations(layer, "weight")
        assert type(layer).__name__ == "ParametrizedLinear" and list(layer.parametrizations) == ["bias"]
        if other is not None:
            close(other.weight, layer.weight)
        P[lib].remove_parametrizations(layer, "bias")
        assert type(layer) is lib.nn.Linear
        if other is not None:
            assert P[lib].is_parametrized(other, "weight") and P[lib].is_parametrized(other, "bias")
            close(other.weight, layer.weight)
        buffered = lib.nn.Module()
        buffered.register_buffer("b", lib.ones(2))
        P[lib].register_parametrization(buffered, "b", lib.nn.Softplus())
        assert list(buffered.state_dict()) == ["parametrizations.b.original"]
        P[lib].remove_parametrizations(buffered, "b", leave_parametrized=True)
        assert list(dict(buffered.named_buffers())) == ["b"]


def test_copies_and_pickles():
    layer = jg.nn.utils.parametrizations.weight_norm(jg.nn.Linear(2, 2))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(other) is type(layer) and other.weight.tolist() == layer.weight.tolist()
        other.parametrizations.weight.original0.data.fill_(0)
        assert not other.weight.any() and layer.weight.any()


def test_transfer():
    for lib in (jg, torch):
        source, target = CASES["parts and one"](lib), linear(lib)
        P[lib].transfer_parametrizations_and_params(source, target)
        assert list(source.state_dict()) == list(target.state_dict())
        close(source.weight, target.weight)


ERRORS = [
    lambda lib, p: p.register_parametrization(linear(lib), "x", symmetric(lib)),
    lambda lib, p: p.register_parametrization(linear(lib), "weight", resized(lib)),
    lambda lib, p: p.register_parametrization(CASES["one"](lib), "weight", resized(lib)),
    lambda lib, p: p.register_parametrization(linear(lib), "weight", returning(lib, lambda x: 3)),
    lambda lib, p: p.register_parametrization(linear(lib), "weight", returning(lib, lambda x: x.float())),
    lambda lib, p: p.register_parametrization(linear(lib), "weight", returning(lib, lambda x: x, lambda x: 3)),
    lambda lib, p: p.register_parametrization(linear(lib), "weight", returning(lib, lambda x: x, lambda x: [x, 3])),
    lambda lib, p: p.register_parametrization(linear(lib), "weight", returning(lib, lambda x: x, lambda x: x.float())),
    lambda lib, p: p.remove_parametrizations(linear(lib), "weight"),
    lambda lib, p: p.remove_parametrizations(CASES["parts"](lib), "weight", leave_parametrized=False),
    lambda lib, p: setattr(CASES["one"](lib), "weight", lib.ones(3, 3, dtype=lib.float64)),
    lambda lib, p: setattr(CASES["inverse"](lib), "weight", lib.ones(3, 3)),
    lambda lib, p: p.ParametrizationList([], lib.ones(2)),
    lambda lib, p: lib.nn.utils.parametrizations.orthogonal(linear(lib), "x"),
    lambda lib, p: lib.nn.utils.parametrizations.orthogonal(linear(lib), "bias"),
    lambda lib, p: lib.nn.utils.parametrizations.orthogonal(linear(lib), orthogonal_map="x"),
    lambda lib, p: lib.nn.utils.parametrizations.orthogonal(
        lib.nn.Linear(2, 3, dtype=lib.complex64), orthogonal_map="householder"
    ),
    lambda lib, p: setattr(
        lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(2, 2), use_trivialization=False), "weight", lib.eye(2)
    ),
    lambda lib, p: setattr(lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(2, 2)), "weight", lib.eye(3)),
    lambda lib, p: lib.nn.utils.parametrizations.spectral_norm(linear(lib), n_power_iterations=0),
    lambda lib, p: lib.nn.utils.parametrizations.spectral_norm(linear(lib), dim=2),
    lambda lib, p: lib.nn.utils.parametrizations.spectral_norm(linear(lib), "x"),
    lambda lib, p: lib.nn.utils.remove_weight_norm(linear(lib)),
    lambda lib, p: lib.nn.utils.remove_spectral_norm(linear(lib)),
    lambda lib, p: lib.nn.utils.spectral_norm(lib.nn.utils.spectral_norm(linear(lib))),
    lambda lib, p: lib.nn.utils.spectral_norm(linear(lib), n_power_iterations=0),
]


def returning(lib, forward, inverse=None):
    made = lib.nn.Module()
    made.forward = forward
    if inverse is not None:
        made.right_inverse = inverse
    return made


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    raised = []
    for lib in (torch, jg):
        with pytest.raises(Exception) as error:
            ERRORS[case](lib, P[lib])
        raised.append(error.value)
    theirs, ours = raised
    assert isinstance(ours, type(theirs)), f"PyTorch raises {theirs!r}; jitgrad {ours!r}"
    first = str(ours).split("\n")[0].split("\n  at ")[0].replace("jitgrad.", "torch.")
    assert first[:30] == str(theirs).split("\n")[0][:30]


# parametrizations of weights ----------------------------------------------------------------------------------


def older_weight_norm(lib, *args, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = lib.nn.utils.weight_norm(*args, **kwargs)
    assert [w.category for w in caught] == [FutureWarning]
    return made


WEIGHTS = {
    "weight norm": lambda lib: lib.nn.utils.parametrizations.weight_norm(linear(lib)),
    "weight norm, dim 1": lambda lib: lib.nn.utils.parametrizations.weight_norm(linear(lib), dim=1),
    "weight norm of all": lambda lib: lib.nn.utils.parametrizations.weight_norm(linear(lib), dim=None),
    "weight norm of a convolution": lambda lib: lib.nn.utils.parametrizations.weight_norm(
        lib.nn.Conv1d(3, 3, 1, dtype=lib.float64)
    ),
    "older weight norm": lambda lib: older_weight_norm(lib, linear(lib)),
    "older weight norm of all": lambda lib: older_weight_norm(lib, linear(lib), dim=None),
    "spectral norm": lambda lib: lib.nn.utils.parametrizations.spectral_norm(linear(lib)),
    "spectral norm, more steps": lambda lib: lib.nn.utils.parametrizations.spectral_norm(linear(lib), "weight", 3),
    "spectral norm of a vector": lambda lib: lib.nn.utils.parametrizations.spectral_norm(linear(lib), "bias"),
    "spectral norm, transposed": lambda lib: lib.nn.utils.parametrizations.spectral_norm(
        lib.nn.ConvTranspose1d(3, 2, 2, dtype=lib.float64)
    ),
    "older spectral norm": lambda lib: lib.nn.utils.spectral_norm(linear(lib)),
    "older spectral norm, transposed": lambda lib: lib.nn.utils.spectral_norm(
        lib.nn.ConvTranspose1d(3, 2, 2, dtype=lib.float64), n_power_iterations=2
    ),
}


def run(lib, layer, steps=3):
    """Outputs of steps in training, with a gradient at the end, and one in evaluation."""
    shape = (2, 3, 4) if "Conv" in type(layer).__name__ else (2, 3)
    outputs = []
    for i in range(steps):
        layer.zero_grad()
        out = layer(lib.tensor(array(shape, i)))
        (out**2).sum().backward()
        outputs.append(out)
    layer.eval()
    return [*outputs, layer(lib.tensor(array(shape, 9)))]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_as_in_torch(case, compiled):
    mine, theirs = WEIGHTS[case](jg), WEIGHTS[case](torch)
    assert state(mine) == state(theirs)
    copy_weights(mine, theirs)
    if compiled:
        jg.compile(mine, fullgraph=True)
    for a, b in zip(run(jg, mine), run(torch, theirs), strict=True):
        close(a, b, 1e-7, 1e-8)
    same_gradients(mine, theirs)
    for (name, a), b in zip(mine.state_dict().items(), theirs.state_dict().values(), strict=True):
        close(a, b, 1e-7, 1e-8), name


def test_removing_the_older_norms():
    for lib in (jg, torch):
        for add, remove in (
            (lambda m, lib=lib: older_weight_norm(lib, m), lib.nn.utils.remove_weight_norm),
            (lib.nn.utils.spectral_norm, lib.nn.utils.remove_spectral_norm),
        ):
            layer = add(linear(lib))
            layer(lib.ones(1, 3, dtype=lib.float64))
            want = layer.eval()(lib.ones(1, 3, dtype=lib.float64))
            remove(layer)
            assert type(layer) is lib.nn.Linear and isinstance(layer.weight, lib.nn.Parameter)
            assert list(layer.state_dict()) == ["bias", "weight"] and not layer._forward_pre_hooks
            close(layer(lib.ones(1, 3, dtype=lib.float64)), want)


def test_state_of_the_older_weight_norm_can_be_loaded():
    old = older_weight_norm(torch, linear(torch))
    new = jg.nn.utils.parametrizations.weight_norm(jg.nn.Linear(3, 3).double())
    new.load_state_dict({k: jg.tensor(v.detach().numpy()) for k, v in old.state_dict().items()})
    close(new.weight, old.weight)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (2, 5, 3)])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(kind, shape, dtype, trivial):
    if dtype == "complex128" and kind == "householder":
        pytest.skip("reflections are for real matrices")
    values = array(shape, 1) + (1j * array(shape, 2) if dtype == "complex128" else 0)
    made = []
    for lib in (jg, torch):
        module = lib.nn.Module()
        module.weight = lib.nn.Parameter(lib.tensor(values))
        lib.nn.utils.parametrizations.orthogonal(module, "weight", kind, use_trivialization=trivial)
        made.append(module)
    mine, theirs = made
    assert state(mine) == state(theirs)
    copy_weights(mine, theirs)
    shift = np.tril(array(shape, 3) * 0.1, -1)  # the diagonal is of signs
    for lib, module in ((jg, mine), (torch, theirs)):
        with lib.no_grad():
            module.parametrizations.weight.original += lib.tensor(shift)
        weights = lib.tensor(array(shape, 4))
        (module.weight.real * weights).sum().backward()
    close(mine.weight, theirs.weight, 1e-7, 1e-8)
    same_gradients(mine, theirs)
    Q = mine.weight.detach()
    Q = Q if shape[-2] >= shape[-1] else Q.mH
    np.testing.assert_allclose((Q.mH @ Q).numpy(), np.broadcast_to(np.eye(Q.shape[-1]), (Q.mH @ Q).shape), atol=1e-12)
    if trivial and shape == (4, 2):
        f = jg.compile(lambda: mine.weight * 2)
        close(f(), mine.weight * 2)
    if trivial or kind == "householder":
        wanted = jg.linalg.qr(jg.tensor(values))[0] if shape[-2] >= shape[-1] else mine.weight.detach().clone()
        mine.weight = wanted
        close(mine.weight, wanted, 1e-9, 1e-9)


def test_training_steps_with_parametrizations_are_compiled():
    def trained(compiled):
        jg.manual_seed(0)
        model = jg.nn.Sequential(
            jg.nn.utils.parametrizations.weight_norm(jg.nn.Linear(3, 4)),
            jg.nn.utils.parametrizations.spectral_norm(jg.nn.Linear(4, 4)),
            jg.nn.utils.spectral_norm(jg.nn.Linear(4, 1)),
        )
        optimizer = jg.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        f = jg.compile(step, fullgraph=True) if compiled else step
        return [f(jg.tensor(array((5, 3), i)).float()).item() for i in range(6)]

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-4)


def test_the_cache_does_not_reach_into_other_traces():
    layer = jg.nn.utils.parametrizations.weight_norm(jg.nn.Linear(2, 2))
    f = jg.compile(lambda x: layer(x))
    x = jg.ones(1, 2)
    for k in range(3):
        with jg.nn.utils.parametrize.cached(), jg.no_grad():
            want = layer(x).tolist()
            np.testing.assert_allclose(f(x).tolist(), want, rtol=1e-6)
        layer.parametrizations.weight.original0.data.mul_(k + 2)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_recurrent_weights(compiled):
    made = []
    for lib in (jg, torch):
        layer = lib.nn.LSTM(2, 3, dtype=lib.float64)
        for name in ("weight_hh_l0", "weight_ih_l0"):
            lib.nn.utils.parametrizations.weight_norm(layer, name)
        made.append(layer)
    mine, theirs = made
    copy_weights(mine, theirs)
    if compiled:
        jg.compile(mine, fullgraph=True)
    outputs = [layer(lib.tensor(array((4, 1, 2), 1)))[0] for lib, layer in ((jg, mine), (torch, theirs))]
    close(*outputs, 1e-7, 1e-8)
    for out in outputs:
        out.sum().backward()
    same_gradients(mine, theirs)
