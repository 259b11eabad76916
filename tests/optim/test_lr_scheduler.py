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
    "SequentialLR(o, [S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9), S.StepLR(o, 2)], [3, 7])",
    "SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=4), S.CosineAnnealingLR(o, 6)], [4])",
    "ChainedScheduler([S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], optimizer=o)",
    "CyclicLR(o, 0.01, 0.1, step_size_up=3, cycle_momentum=False)",
    "CyclicLR(o, [0.01, 0.02], [0.1, 0.3], step_size_up=2, step_size_down=3, mode='triangular2')",
    "CyclicLR(o, 0.01, 0.1, step_size_up=3, mode='exp_range', gamma=0.9)",
    "CyclicLR(o, 0.01, 0.1, step_size_up=3, scale_fn=lambda x: 0.9**x, scale_mode='iterations')",
    "OneCycleLR(o, 0.5, total_steps=13)",
    "OneCycleLR(o, [0.5, 0.7], epochs=2, steps_per_epoch=8, anneal_strategy='linear', three_phase=True)",
    "CosineAnnealingWarmRestarts(o, 3)",
    "CosineAnnealingWarmRestarts(o, 2, T_mult=2, eta_min=0.01)",
]


def make(lib, text):
    p = [lib.zeros(1, requires_grad=True) for _ in range(2)]
    o = lib.optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.3}], lr=0.1, momentum=0.9)
    return o, eval(f"S.{text}", {"S": lib.optim.lr_scheduler, "o": o})


@pytest.mark.parametrize("text", SCHEDULES)
def test_schedule(text):
    (mine, a), (theirs, b) = make(jg, text), make(torch, text)
    for _ in range(12):
        for name in ("lr", "momentum"):
            got, want = ([g[name] for g in o.param_groups] for o in (mine, theirs))
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


@pytest.mark.parametrize("options", [{}, {"mode": "max"}, {"threshold_mode": "abs", "threshold": 0.1, "cooldown": 2}])
def test_plateau(options):
    made = []
    for lib in (jg, torch):
        o = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=1.0)
        s = lib.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1, min_lr=0.1, **options)
        made.append((o, s))
    for metric in [1.0, 0.9, 0.95, 0.95, 0.93, 1.5, 1.6, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]:
        for _, s in made:
            s.step(metric)
        (a, s), (b, t) = made
        assert a.param_groups[0]["lr"] == b.param_groups[0]["lr"]
        assert s.num_bad_epochs == t.num_bad_epochs and s.best == t.best
    state = made[0][1].state_dict()
    fresh = jg.optim.lr_scheduler.ReduceLROnPlateau(made[0][0])
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state


def test_betas_cycle_too():
    paths = []
    for lib in (jg, torch):
        o = lib.optim.Adam([lib.zeros(1, requires_grad=True)])
        s = lib.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=5)
        paths.append([])
        for _ in range(4):
            o.step()
            s.step()
            paths[-1].append(o.param_groups[0]["betas"][0])
    assert paths[0] == pytest.approx(paths[1], rel=1e-12)


def test_warm_restarts_at_fractions():
    (_, a), (_, b) = (
        make(jg, "CosineAnnealingWarmRestarts(o, 3, T_mult=2)"),
        make(torch, "CosineAnnealingWarmRestarts(o, 3, T_mult=2)"),
    )
    for epoch in [0.5, 1.25, 2.9, 3.0, 7.5, 26, 1]:
        a.step(epoch)
        b.step(epoch)
        assert a.get_last_lr() == pytest.approx(b.get_last_lr(), rel=1e-12)


def test_errors():
    with pytest.raises(TypeError, match="not an Optimizer"):
        jg.optim.lr_scheduler.StepLR(3, 1)
    o, _ = make(jg, SCHEDULES[0])
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas"):
        jg.optim.lr_scheduler.LambdaLR(o, [lambda e: 1.0])
    fresh = jg.optim.SGD([jg.zeros(1, requires_grad=True)])
    with pytest.raises(KeyError, match="initial_lr"):
        jg.optim.lr_scheduler.StepLR(fresh, 1, last_epoch=3)
    schedules, o = jg.optim.lr_scheduler, make(jg, SCHEDULES[0])[0]
    for wrong in (
        lambda: schedules.OneCycleLR(o, 0.1),
        lambda: schedules.OneCycleLR(o, 0.1, total_steps=-1),
        lambda: schedules.CyclicLR(o, 0.1, [0.2]),
        lambda: schedules.CosineAnnealingWarmRestarts(o, 0),
        lambda: schedules.ReduceLROnPlateau(o, factor=2.0),
        lambda: schedules.ReduceLROnPlateau(o, mode="best"),
        lambda: schedules.SequentialLR(o, [], []),
        lambda: schedules.SequentialLR(o, [schedules.StepLR(o, 1)], [1]),
        lambda: schedules.ChainedScheduler([schedules.ReduceLROnPlateau(o)]),
    ):
        with pytest.raises(ValueError):
            wrong()
    done = schedules.OneCycleLR(o, 0.1, total_steps=2)
    done.step()
    done.step()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        done.step()
