"""Averages of weights, against PyTorch's."""

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")
from nn_pair import array  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")]


def model(lib):
    made = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4))
    with lib.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(lib.tensor(array(tuple(p.shape), i, "f4")))
    return made


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize(
    "average",
    ["", "avg_fn=u.get_ema_avg_fn(0.9)", "multi_avg_fn=u.get_ema_multi_avg_fn(0.8)", "avg_fn=u.get_swa_avg_fn()"],
)
def test_averaged_model(average, use_buffers):
    states = []
    for lib in (jg, torch):
        m = model(lib)
        text = f"u.AveragedModel(m, {average + ',' if average else ''} use_buffers=use_buffers)"
        averaged = eval(text, {"u": lib.optim.swa_utils, "m": m, "use_buffers": use_buffers})
        for i in range(3):
            with lib.no_grad():
                for p in m.parameters():
                    p.mul_(1.5)
            m(lib.tensor(array((5, 3), i, "f4")))
            averaged.update_parameters(m)
        states.append(averaged.state_dict())
    assert list(states[0]) == list(states[1])
    for name, want in states[1].items():
        np.testing.assert_allclose(states[0][name].numpy(), want.numpy(), rtol=2e-6, atol=1e-6)


def test_update_bn():
    stats = []
    for lib in (jg, torch):
        m = model(lib).eval()
        data = [(lib.tensor(array((5, 3), i, "f4")), 0) for i in range(3)]
        lib.optim.swa_utils.update_bn(data, m)
        assert not m.training and m[1].momentum == 0.1
        stats.append([m[1].running_mean.numpy(), m[1].running_var.numpy()])
    np.testing.assert_allclose(*stats, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"anneal_epochs": 0}, {"anneal_strategy": "linear", "anneal_epochs": 3}])
def test_swa_lr(options):
    rates = []
    for lib in (jg, torch):
        o = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=1.0)
        s = lib.optim.swa_utils.SWALR(o, swa_lr=0.05, **options)
        rates.append([])
        for _ in range(14):
            o.step()
            s.step()
            rates[-1].append(o.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(rates[1], rel=1e-12)
