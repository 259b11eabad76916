"""Learning-rate schedules against PyTorch's."""

import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")]

SCHEDULES = [
    "LambdaLR(o, lambda e: 0.9**e)",
    "LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)])",
    "MultiplicativeLR(o, lambda e: 0.95)",
    "StepLR(o, 3, gamma=0.5)",
    "MultiStepLR(o, [2, 5, 5], gamma=0.5)",
    "ExponentialLR(o, 0.9)",
    "ConstantLR(o, 0.5, total_iters=4)",
    "LinearLR(o, 0.2, 0.8, total_iters=5)",
    "PolynomialLR(o, total_iters=6, power=2)",
    "CosineAnnealingLR(o, T_max=4, eta_min=0.01)",
]


def make(lib, text):
    p = [lib.zeros(1, requires_grad=True) for _ in range(2)]
    o = lib.optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.3}], lr=0.1)
    return o, eval(f"lib.optim.lr_scheduler.{text}", {"lib": lib, "o": o})


@pytest.mark.parametrize("text", SCHEDULES)
def test_schedule(text):
    (mine, a), (theirs, b) = make(jg, text), make(torch, text)
    for _ in range(12):
        got, want = ([g["lr"] for g in o.param_groups] for o in (mine, theirs))
        assert got == pytest.approx(want, rel=1e-12)
        assert a.get_last_lr() == pytest.approx(b.get_last_lr(), rel=1e-12)
        for o, s in ((mine, a), (theirs, b)):
            o.step()
            s.step()


@pytest.mark.parametrize("text", SCHEDULES)
def test_state(text):
    o, a = make(jg, text)
    for _ in range(3):
        a.step()
    p, b = make(jg, text)
    p.load_state_dict(o.state_dict())
    b.load_state_dict(a.state_dict())
    for _ in range(4):
        a.step()
        b.step()
        assert a.get_last_lr() == b.get_last_lr()
        assert [g["lr"] for g in o.param_groups] == [g["lr"] for g in p.param_groups]


def test_errors():
    with pytest.raises(TypeError, match="not an Optimizer"):
        jg.optim.lr_scheduler.StepLR(3, 1)
    o, _ = make(jg, SCHEDULES[0])
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas"):
        jg.optim.lr_scheduler.LambdaLR(o, [lambda e: 1.0])
    fresh = jg.optim.SGD([jg.zeros(1, requires_grad=True)])
    with pytest.raises(KeyError, match="initial_lr"):
        jg.optim.lr_scheduler.StepLR(fresh, 1, last_epoch=3)
