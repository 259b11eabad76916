"""`Module`'s methods beside PyTorch's: the same names, results, errors and messages in short programs."""

import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

# Of other devices and of PyTorch's own machinery.
NOT_HERE = {"ipu", "mtia", "xpu", "dump_patches", "T_destination"}


def net(lib):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = lib.nn.Linear(2, 3)
            self.b = lib.nn.Sequential(lib.nn.BatchNorm1d(3), lib.nn.Linear(3, 1, bias=False))
            self.c = self.a
            self.w = lib.nn.Parameter(lib.zeros(2))
            self.register_buffer("kept", lib.ones(1))
            self.register_buffer("lost", lib.ones(1), persistent=False)
            self.register_buffer("none", None)
            self.register_parameter("no", None)
            self.plain = 3

    return Net()


def plain(x):
    """What both libraries can be compared by."""
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (int, float, str, bool)) or x is None:
        return x
    if hasattr(x, "tolist"):
        return [str(x.dtype).rpartition(".")[2], list(x.shape), bool(x.requires_grad)]
    return type(x).__name__


def outcome(program, lib):
    try:
        return plain(program(lib, net(lib)))
    except Exception as error:
        return error


def does(statement):
    """A program of statements on `m`, whose result is `r`."""

    def program(lib, m):
        env = {"L": lib, "nn": lib.nn, "m": m, "r": None}
        exec(statement, env)
        return env["r"]

    return program


SAME = [
    "r = list(m.state_dict())",
    "r = list(m.named_parameters())",
    "r = list(m.named_parameters(remove_duplicate=False))",
    "r = list(m.named_parameters('x', recurse=False))",
    "r = list(m.named_buffers())",
    "r = list(m.named_buffers(remove_duplicate=False))",
    "r = [n for n, _ in m.named_modules()]",
    "r = [n for n, _ in m.named_modules(remove_duplicate=False)]",
    "r = [n for n, _ in m.named_children()]",
    "r = [type(x).__name__ for x in m.modules(remove_duplicate=False)]",
    "r = repr(m)",
    "r = [n for n in dir(m) if n in ('a', 'b', 'w', 'kept', 'no', 'plain', 'forward')]",
    "r = [n for n in dir(m.b) if n in ('0', '1')]",
    "r = m.get_submodule('b.1')",
    "r = m.get_submodule('') is m",
    "m.get_submodule('b.x')",
    "m.get_submodule('plain')",
    "r = m.get_parameter('b.1.weight')",
    "m.get_parameter('b.1.bias')",
    "m.get_parameter('b.1.x')",
    "m.get_parameter('kept')",
    "r = m.get_buffer('b.0.running_mean')",
    "m.get_buffer('w')",
    "m.set_submodule('b.1', nn.ReLU()); r = repr(m)",
    "m.set_submodule('new', nn.ReLU()); r = repr(m)",
    "m.set_submodule('', nn.ReLU())",
    "m.set_submodule('b.1', 3)",
    "m.set_submodule('plain', nn.ReLU())",
    "m.set_submodule('q', nn.ReLU(), strict=True)",
    "m.set_submodule('q.r', nn.ReLU())",
    "m.w = None; r = list(m.state_dict())",
    "m.w = L.ones(2)",
    "m.w = 3",
    "m.a = 3",
    "m.a = None; r = repr(m)",
    "m.kept = 3",
    "m.kept = None; r = list(m.state_dict())",
    "m.kept = L.zeros(5); r = list(m.named_buffers())",
    "m.lost = L.zeros(5); r = list(m.state_dict())",
    "m.a = nn.Parameter(L.ones(1)); r = list(m.state_dict())",
    "m.w = nn.ReLU(); r = (list(m.state_dict()), repr(m))",
    "m.plain = nn.ReLU(); r = repr(m)",
    "m.plain = L.ones(1); r = list(m.state_dict())",
    "m.other = nn.Buffer(L.ones(1)); r = list(m.state_dict())",
    "m.other = nn.Buffer(L.ones(1), persistent=False); r = (list(m.state_dict()), list(m.named_buffers()))",
    "del m.w; r = list(m.state_dict())",
    "del m.a; r = list(m.state_dict())",
    "del m.kept; r = list(m.state_dict())",
    "del m.plain; m.plain",
    "del m.nothing",
    "m.nothing",
    "m.register_buffer('a', L.ones(1))",
    "m.register_buffer('x.y', L.ones(1))",
    "m.register_buffer('', L.ones(1))",
    "m.register_buffer(3, L.ones(1))",
    "m.register_buffer('x', 3)",
    "m.register_parameter('plain', None)",
    "m.register_parameter('x', L.ones(1))",
    "m.register_parameter('x.y', None)",
    "m.register_parameter('', None)",
    "m.register_parameter(3, None)",
    "m.add_module('plain', None)",
    "m.add_module('x.y', None)",
    "m.add_module('', None)",
    "m.add_module(3, None)",
    "m.add_module('x', 3)",
    "m.register_module('x', nn.ReLU()); r = repr(m)",
    "m(1)",
    "m.train(3)",
    "r = m.eval().a.training",
    "r = m.requires_grad_(False).w.requires_grad",
    "m.double(); r = list(m.state_dict().values())",
    "m.half(); r = list(m.named_buffers())",
    "m.to(L.bfloat16); r = list(m.state_dict().values())",
    "m.to(L.ones(1, dtype=L.float64)); r = list(m.state_dict().values())",
    "m.to('cpu', L.float64); r = list(m.state_dict().values())",
    "m.to(dtype=L.float64, non_blocking=True); r = list(m.state_dict().values())",
    "m.to(L.int32)",
    "m.to([])",
    "m.type(L.float64); r = list(m.state_dict().values())",
    "m.to_empty(device='cpu'); r = list(m.state_dict().values())",
    "r = []; m.apply(lambda x: r.append(type(x).__name__))",
    "m.w.grad = L.full((2,), float('nan')); m.zero_grad(set_to_none=False); r = [m.w.grad.sum().item()]",
    "m.w.grad = L.ones(2); m.zero_grad(); r = m.w.grad is None",
    "r = m.share_memory() is m",
    "r = str(m.load_state_dict(m.state_dict()))",
    "r = m.load_state_dict({}, strict=False).missing_keys",
    "r = m.load_state_dict({'x': L.ones(1)}, strict=False).unexpected_keys",
    "m.load_state_dict([])",
    "m.load_state_dict({**m.state_dict(), 'x': L.ones(1)})",
    "s = m.state_dict(); del s['w']; del s['b.0.bias']; s['a.q.r'] = L.ones(1); m.load_state_dict(s)",
    "s = m.state_dict(); s['w'] = L.ones(3); m.load_state_dict(s, strict=False)",
    "s = m.state_dict(); s['w'] = [1, 2]; m.load_state_dict(s)",
    "s = m.state_dict(); s['w'] = L.ones(2).double(); m.load_state_dict(s); r = m.w",
    "s = m.state_dict(); s['w'] = L.ones(2).double(); m.load_state_dict(s, assign=True); r = m.w",
    "s = m.state_dict(); s['w'] = nn.Parameter(L.ones(2), False); m.load_state_dict(s, assign=True); r = m.w",
    "s = m.state_dict(); s['kept'] = L.zeros(1).long(); m.load_state_dict(s, assign=True); r = m.kept",
    "m.p = nn.Parameter(L.tensor(1.0)); s = m.state_dict(); s['p'] = L.full((1,), 3.0); m.load_state_dict(s);"
    " r = m.p.item()",
    "r = repr(nn.Buffer(L.ones(1)))",
    "s = m.state_dict(); del s['b.0.num_batches_tracked']; m.load_state_dict(s)",
    "r = str(m.load_state_dict({k: v for k, v in m.state_dict().items() if 'tracked' not in k}))",
    "s = m.state_dict(keep_vars=True); r = s['w'] is m.w",
    "s = m.state_dict(prefix='p.'); r = (list(s), dict(s._metadata))",
    "d = {'x': 1}; r = m.state_dict(destination=d) is d, list(d)",
    "m.register_state_dict_post_hook(lambda *a: 3); m.state_dict()",
    "m.a._register_state_dict_hook(lambda m, s, p, l: s.pop(p + 'bias') and None); r = list(m.state_dict())",
    "m._register_state_dict_hook(lambda m, s, p, l: {'x': 1}); r = m.state_dict()",
    "m.register_state_dict_pre_hook(lambda m, p, k: setattr(m, 'w', None)); r = list(m.state_dict())",
    "m._register_load_state_dict_pre_hook(lambda s, p, *a: s.pop('w')); m.load_state_dict(m.state_dict())",
    "m.register_load_state_dict_pre_hook(lambda m, s, p, *a: s.update(w=L.ones(2)));"
    " s = m.state_dict(); del s['w']; m.load_state_dict(s); r = m.w.sum().item()",
    "m.register_load_state_dict_post_hook(lambda m, k: k.missing_keys.clear()); r = str(m.load_state_dict({}))",
    "m.register_load_state_dict_post_hook(lambda m, k: 3); m.load_state_dict(m.state_dict())",
    "m.get_extra_state()",
    "m.set_extra_state(3)",
    "nn.Module(3)",
    "nn.Module(a=3)",
    "class A(nn.Module):\n  def __init__(self): self.a = nn.Linear(1, 1)\nA()",
    "class A(nn.Module):\n  def __init__(self): self.a = nn.Parameter(L.ones(1))\nA()",
    "class A(nn.Module):\n  def __init__(self): self.register_buffer('a', L.ones(1))\nA()",
    "class B:\n  def __init__(self, x): self.x = x\n"
    "class A(nn.Module, B):\n  call_super_init = True\n  def __init__(self): super().__init__(x=5)\nr = A().x",
]

# The type of the error is PyTorch's, and the message names something else: a type of tensors that is not here, where a
# class is defined, the wrong name, fewer signatures.
SAID_OTHERWISE = {
    "m.w = L.ones(2)",
    "m.w = nn.ReLU(); r = (list(m.state_dict()), repr(m))",
    "m.register_buffer('x.y', L.ones(1))",
    "m.register_parameter('x', L.ones(1))",
    "m.register_parameter('x.y', None)",
    "m.to([])",
    "m.get_extra_state()",
    "m.set_extra_state(3)",
}


@pytest.mark.parametrize("statement", SAME)
def test_as_in_torch(statement):
    want, got = outcome(does(statement), torch), outcome(does(statement), jg)
    if not isinstance(want, Exception):
        if isinstance(got, Exception):
            raise got
        assert got == want
        return
    assert isinstance(got, type(want)), f"PyTorch raises {want!r}; jitgrad gives {got!r}"
    assert statement in SAID_OTHERWISE or _words(got) == _words(want)


def _words(error):
    """The first line of a message, less names of the libraries and the user's line."""
    text = str(error).split("\n  at ")[0].replace("torch.", "").replace("jitgrad.", "").replace("torch ", "")
    return text.replace("jitgrad ", "").replace("parameter.", "").replace("tensor.", "")


def test_names():
    missing = {name for name in dir(torch.nn.Module) if not name.startswith("_") and not hasattr(jg.nn.Module, name)}
    assert missing == NOT_HERE


def test_a_failed_load_changes_nothing():
    m = net(jg)
    before = {k: (v, v.tolist()) for k, v in m.state_dict(keep_vars=True).items()}
    other = {k: v + 1 for k, v in net(jg).state_dict().items()}
    for wrong, assign in [({"w": jg.ones(7)}, False), ({"x": jg.ones(1)}, False), ({"w": jg.ones(7)}, True)]:
        with pytest.raises(RuntimeError):
            m.load_state_dict({**other, **wrong}, assign=assign)
        after = m.state_dict(keep_vars=True)
        assert list(after) == list(before)
        for name, (tensor, values) in before.items():
            assert after[name] is tensor and tensor.tolist() == values
    lazy = jg.nn.Sequential(jg.nn.LazyLinear(2), jg.nn.Linear(2, 2))
    state = jg.nn.Sequential(jg.nn.Linear(3, 2), jg.nn.Linear(2, 3)).state_dict()
    with pytest.raises(RuntimeError, match="size mismatch for 1"):
        lazy.load_state_dict(state)
    assert repr(lazy[0].weight) == "<UninitializedParameter>"
    assert lazy(jg.ones(1, 5)).shape == (1, 2)


def test_a_failed_load_changes_no_compiled_module():
    m, x = jg.compile(jg.nn.Linear(2, 2)), jg.ones(1, 2)
    want = m(x).tolist()
    state = {"weight": jg.zeros(2, 2), "bias": jg.zeros(3)}
    with pytest.raises(RuntimeError, match="size mismatch for bias"):
        m.load_state_dict(state)
    assert m(x).tolist() == want
