"""Programs on a device: gradients, modules, optimizers, compiled functions; each agrees with the CPU."""

import copy
import warnings

import pytest
from comparing import moved, same

import jitgrad as jg
from jitgrad import nn
from jitgrad.nn import functional as F

CLOSE = {"rtol": 2e-5, "atol": 2e-6}


def test_gradients_call_after_call():
    x, w = jg.rand(5, 4, requires_grad=True), jg.rand(4, 3, requires_grad=True)
    there = moved(x), moved(w)

    def loss(x, w):
        return ((x @ w).tanh() * jg.arange(3.0, device=x.device)).sum()

    expected = jg.autograd.grad(loss(x, w), (x, w))
    for _ in range(3):  # interpreted, compiled, replayed
        for ours, theirs in zip(jg.autograd.grad(loss(*there), there), expected, strict=True):
            same(ours, theirs, **CLOSE)
    loss(*there).backward()
    loss(*there).backward()
    assert there[0].grad.is_cuda
    same(there[0].grad, 2 * expected[0], **CLOSE)


def test_second_derivatives():
    x = jg.rand(4, dtype=jg.float64, requires_grad=True)
    y = moved(x)

    def second(x):
        (g,) = jg.autograd.grad((x**3 * x.sin()).sum(), x, create_graph=True)
        return jg.autograd.grad((g * g).sum(), x)[0]

    same(second(y), second(x), 1e-12)


def test_gradients_across_devices():
    x = jg.rand(3, requires_grad=True)
    y = (x.cuda() * 2).sum().cpu() * 3
    y.backward()
    assert x.grad.is_cpu and x.grad.tolist() == [6.0] * 3
    number = jg.tensor(2.0, requires_grad=True)
    for _ in range(3):
        number.grad = None
        (number * number * jg.ones(3, device="cuda")).sum().backward()
        assert number.grad.is_cpu and number.grad.item() == 12.0
    (g,) = jg.autograd.grad((number**3 * jg.ones(3, device="cuda")).sum(), number, create_graph=True)
    assert g.is_cpu and jg.autograd.grad(g, number)[0].item() == 36.0
    z = jg.rand(3, device="cuda", requires_grad=True)
    (z.cpu() ** 2).sum().backward()
    assert z.grad.is_cuda


def test_hooks_and_custom_functions():
    class Double(jg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2, x + 1

        @staticmethod
        def backward(ctx, g, h):
            return 2 * g + h

    x = jg.ones(3, device="cuda", requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.device) or g * 10)
    Double.apply(x)[0].sum().backward()
    assert seen == [x.device] and x.grad.tolist() == [20.0] * 3
    with jg.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan values"):
        (jg.zeros(1, device="cuda", requires_grad=True) / jg.zeros(1, device="cuda")).sqrt().sum().backward()


def test_in_place_and_views_in_gradients():
    x = jg.rand(3, 4, requires_grad=True)
    y = moved(x)

    def run(x):
        z = x * 2
        z[1] = z[0] * 3
        z[:, 1].mul_(2)
        z.T[2].add_(1)
        return jg.autograd.grad((z * z).sum(), x)[0]

    same(run(y), run(x), **CLOSE)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)), (5, 6)),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(),
                                  nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)), (4, 1, 4, 4)),
}  # fmt: skip
OPTIMIZERS = {
    "sgd": lambda p: jg.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: jg.optim.Adam(p, lr=0.01),
    "adamw": lambda p: jg.optim.AdamW(p, lr=0.01, amsgrad=True),
}


def train(model, make, x, y, compiled, steps=4):
    optimizer = make(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = jg.compile(step) if compiled else step
    return [run(x, y).item() for _ in range(steps)], optimizer


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("model", "optimizer"), [("mlp", "sgd"), ("mlp", "adamw"), ("cnn", "adam")])
def test_training(model, optimizer, compiled):
    make, shape = MODELS[model]
    here = make()
    there = copy.deepcopy(here).to("cuda")
    assert all(t.is_cuda for t in there.state_dict().values())
    x, y = jg.rand(*shape), jg.arange(shape[0]) % 3
    expected, _ = train(here, OPTIMIZERS[optimizer], x, y, compiled)
    found, kept = train(there, OPTIMIZERS[optimizer], x.cuda(), y.cuda(), compiled)
    assert found == pytest.approx(expected, rel=1e-4)
    for ours, theirs in zip(there.state_dict().values(), here.state_dict().values(), strict=True):
        same(ours, theirs, 1e-3, 1e-4)
    for state in kept.state.values():
        assert all(t.is_cuda for t in state.values() if isinstance(t, jg.Tensor) and t.ndim)
    again = OPTIMIZERS[optimizer](there.parameters())
    again.load_state_dict(kept.state_dict())
    assert all(p.is_cuda for p in there.parameters())
    there.cpu()
    assert all(t.is_cpu for t in there.state_dict().values())


def test_modules_move():
    model = nn.Sequential(nn.Linear(2, 2, device="cuda"), nn.BatchNorm1d(2))
    assert model[0].weight.is_cuda and model[1].weight.is_cpu
    first = model[0].weight
    model.cuda()
    assert model[0].weight is first and model[1].running_mean.is_cuda
    model.to("cpu", jg.float64)
    assert first.is_cpu and first.dtype is jg.float64
    model[0].weight.grad = jg.ones(2, 2, dtype=jg.float64)
    model.to(jg.device("cuda", 0))
    assert model[0].weight.grad.is_cuda
    model.load_state_dict({k: v.cpu() for k, v in model.state_dict().items()})
    assert first.is_cuda
    model.to_empty(device="cpu")
    assert first.is_cpu
    assert jg.nn.Embedding(3, 2, device="cuda")(jg.tensor([1, 2], device="cuda")).is_cuda


def test_compiled_functions():
    @jg.compile
    def f(x, y):
        return (x + y).tanh().sum(0), x.T

    x, y = jg.rand(3, 4), jg.rand(3, 4)
    for _ in range(4):
        for ours, theirs in zip(f(x.cuda(), y.cuda()), f(x, y), strict=True):
            same(ours, theirs, **CLOSE)
    assert len(f.explain().specialisations) == 2
    with pytest.raises(RuntimeError, match="same device"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f(x.cuda(), y)
    same(f(x.cuda(), jg.tensor(2.0))[0], f(x, jg.tensor(2.0))[0], **CLOSE)


def test_compiled_functions_make_and_move_tensors():
    weight = jg.rand(4, device="cuda")

    @jg.compile(fullgraph=True)
    def f(x):
        x = x.to("cuda")
        return x * weight + jg.arange(4, device="cuda") + jg.zeros(4, device=x.device) + jg.tensor(1.0)

    for _ in range(3):
        x = jg.rand(4)
        same(f(x), x * weight.cpu() + jg.arange(4) + 1, **CLOSE)
    assert f(jg.rand(4)).device == weight.device

    def g(x):
        return (x * 2).cpu() + 1

    compiled = jg.compile(g)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = compiled(weight)
        assert y.is_cpu and y.tolist() == g(weight).tolist()


def test_compiled_functions_whose_result_holds_numbers_alone():
    x = jg.rand(3, device="cuda")
    for f in (
        lambda x: jg.zeros_like(x), lambda x: x.new_full((2,), 3), lambda x: jg.isposinf(x.long()), lambda x: x.diag(),
        lambda x: jg.tril_indices(3, 3, device="cuda"), lambda x: jg.full((), 2.0, device="cuda"),
    ):  # fmt: skip
        same(jg.compile(f, fullgraph=True)(x), f(x).cpu())


def test_compiled_functions_write():
    state, count = jg.zeros(3, device="cuda"), jg.zeros(())

    @jg.compile
    def f(x, part):
        state.add_(x)
        count.add_(1)
        part.mul_(2)
        return state * count

    base = jg.ones(3, 2, device="cuda")
    for k in range(1, 5):
        same(f(jg.ones(3, device="cuda"), base[:, 0]), jg.full((3,), float(k * k)))
        assert state.tolist() == [float(k)] * 3 and count.item() == k
    assert base.tolist() == [[16.0, 1.0]] * 3


def test_compiled_functions_draw_the_same_numbers():
    def f(x):
        return F.dropout(x, 0.5), jg.rand(3, device="cuda")

    compiled = jg.compile(f)
    x = jg.ones(20, device="cuda")
    jg.manual_seed(1)
    expected = [f(x) for _ in range(3)]
    jg.manual_seed(1)
    for pair in expected:
        for ours, theirs in zip(compiled(x), pair, strict=True):
            same(ours, theirs.cpu())


def test_compiled_functions_follow_their_module():
    model = nn.Linear(3, 2)
    f = jg.compile(lambda x: model(x))
    x = jg.rand(4, 3)
    expected = f(x)
    model.cuda()
    same(f(x.cuda()), expected, **CLOSE)
    same(f(x.cuda()), expected, **CLOSE)
    model.cpu()
    assert f(x).is_cpu


def test_refused_values():
    table, at = jg.rand(5, 2, device="cuda"), jg.tensor([1, 7], device="cuda")
    for f in (lambda: table[at], lambda: F.embedding(at, table), jg.compile(lambda: F.embedding(at, table))):
        with pytest.raises(IndexError):
            f()


PRODUCTS = [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 0), (0, 2)),
            ((0, 3), (3, 2)), ((4,), (4,)), ((2, 3, 4), (4,))]  # fmt: skip


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64, jg.float16, jg.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_products(shapes, dtype):
    x, y = (jg.rand(*shape).to(dtype) for shape in shapes)
    a, b = x.cuda(), y.cuda()
    close = {"rtol": 2e-2 if dtype.itemsize == 2 else 1e-6, "atol": 1e-6}
    same(a @ b, x @ y, **close)
    if x.ndim > 1 and y.ndim > 1:
        same((b.mT @ a.mT).mT, (y.mT @ x.mT).mT, **close)
        same(a[..., ::2] @ b[..., ::2, :], x[..., ::2] @ y[..., ::2, :], **close)
        run = jg.compile(lambda a, b: ((a @ b).relu() @ b.mT).sum((0, 1)))
        same(run(a, b), run(x, y), **close)


def test_ops_of_the_host():
    """What has no kernel runs on the host and comes back, and says so."""
    x = jg.rand(6, device="cuda")
    same((x + 0j) * 1j, (x.cpu() + 0j) * 1j)
    same(jg.unique(jg.tensor([3, 1, 3], device="cuda")), jg.tensor([1, 3]))
    same(jg.nonzero(x > 2), jg.zeros(0, 1, dtype=jg.int64))
    f = jg.compile(lambda x: (x * 1j).imag + x.flip(0))
    same(f(x), x.cpu() + x.cpu().flip(0))
    same(f(x), x.cpu() + x.cpu().flip(0))
    assert f.explain().specialisations[0].executable.stats.host_steps > 0


def test_ops_of_libraries():
    x = jg.rand(3, 4, 4) + 4 * jg.eye(4)
    x[0, 1, 2] = float("nan")
    for descending in (False, True):
        for ours, theirs in zip(x.cuda().sort(1, descending), x.sort(1, descending), strict=True):
            same(ours, theirs)
    same(jg.tensor([True, False, True]).cuda().sort()[1], jg.tensor([1, 0, 2]))
    x[0, 1, 2] = 0.5
    h, y = x @ x.mT, jg.rand(3, 4, 2)
    for f in (
        lambda x, h, y: jg.fft.fft2(x), lambda x, h, y: jg.fft.irfft(jg.fft.rfft(x, dim=1), 4, 1),
        lambda x, h, y: jg.linalg.cholesky(h), lambda x, h, y: jg.linalg.solve(x, y), lambda x, h, y: jg.linalg.inv(x),
        lambda x, h, y: jg.linalg.eigvalsh(h), lambda x, h, y: jg.linalg.svdvals(x), lambda x, h, y: jg.linalg.qr(x)[1],
    ):  # fmt: skip
        same(f(x.cuda(), h.cuda(), y.cuda()), f(x, h, y), 1e-4, 1e-5)
        run = jg.compile(lambda *args, f=f: f(*args) * 2)
        same(run(x.cuda(), h.cuda(), y.cuda()), f(x, h, y) * 2, 1e-4, 1e-5)
    with pytest.raises(RuntimeError, match="singular"):
        jg.linalg.inv(jg.zeros(2, 2, device="cuda"))
    with pytest.raises(RuntimeError, match="positive-definite"):
        jg.linalg.cholesky(-jg.eye(2, device="cuda"))
    a = h.cuda().requires_grad_()
    b = h.clone().requires_grad_()
    same(jg.autograd.grad(jg.linalg.cholesky(a).sum(), a)[0], jg.autograd.grad(jg.linalg.cholesky(b).sum(), b)[0], 1e-3,
         1e-4)  # fmt: skip


def test_hooks_and_parametrizations():
    def made(device):
        jg.manual_seed(1)
        m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.Linear(4, 1)).to(device)
        nn.utils.parametrizations.weight_norm(m[0])
        nn.utils.parametrizations.orthogonal(m[2])
        nn.utils.prune.l1_unstructured(m[3], "weight", 1)
        return m

    here, there = made("cpu"), made("cuda")
    there.load_state_dict(here.state_dict())
    seen = {}
    for m, device in ((here, "cpu"), (there, "cuda")):
        m[1].register_full_backward_hook(lambda mod, before, after, d=device: seen.update({d: before[0]}))
        m[0].bias.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", p.grad * 2))
        m(jg.ones(2, 3, device=device)).sum().backward()
    same(seen["cuda"], seen["cpu"], 1e-5, 1e-6)
    for a, b in zip(there.parameters(), here.parameters(), strict=True):
        same(a.grad, b.grad, 1e-5, 1e-6)
