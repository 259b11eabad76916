"""`Module`: registration, iteration, state, hooks, copies, representation, and its change counter."""

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8, 3, bias=False))
        self.register_buffer("scale", jg.ones(1), persistent=False)
        self.offset = nn.Parameter(jg.zeros(3))
        self.depth = 2

    def forward(self, x):
        return self.head(self.conv(x)) * self.scale + self.offset


def names(pairs):
    return [name for name, _ in pairs]


def test_iteration():
    net = Net()
    assert names(net.named_parameters()) == ["offset", "conv.weight", "conv.bias", "head.1.weight"]
    assert names(net.named_parameters(recurse=False)) == ["offset"]
    assert names(net.named_buffers()) == ["scale"]
    assert names(net.named_children()) == ["conv", "head"]
    assert names(net.named_modules()) == ["", "conv", "head", "head.0", "head.1"]
    assert names(net.named_modules(prefix="m")) == ["m", "m.conv", "m.head", "m.head.0", "m.head.1"]
    assert [type(m).__name__ for m in net.modules()] == ["Net", "Conv2d", "Sequential", "Flatten", "Linear"]
    assert net.get_submodule("head.1") is net.head[1] and net.get_parameter("conv.bias") is net.conv.bias
    assert net.get_buffer("scale") is net.scale
    assert "conv" in dir(net) and "offset" in dir(net)


def test_shared_members_are_listed_once():
    net = nn.Module()
    net.a = nn.Linear(2, 2)
    net.b = net.a
    net.c = nn.Linear(2, 2)
    net.c.weight = net.a.weight
    assert names(net.named_parameters()) == ["a.weight", "a.bias", "c.bias"]
    assert names(net.named_modules()) == ["", "a", "c"]
    assert len(names(net.named_parameters(remove_duplicate=False))) == 6
    assert len(net.state_dict()) == 6


def test_assignment_goes_to_the_right_place():
    net = Net()
    net.plain = 3
    net.plain = nn.Parameter(jg.zeros(1))
    assert "plain" in net._parameters and "plain" not in net.__dict__
    net.plain = None
    assert net.plain is None and "plain" in net._parameters
    del net.plain
    assert not hasattr(net, "plain")
    net.scale = jg.zeros(1)
    assert "scale" in net._buffers and "scale" not in net.state_dict()
    net.kept = nn.Buffer(jg.zeros(1))
    assert "kept" in net.state_dict()
    net.conv = nn.Identity()
    assert isinstance(net._modules["conv"], nn.Identity)
    with pytest.raises(TypeError, match="cannot assign 'int' as child module"):
        net.conv = 3
    with pytest.raises(TypeError, match="as parameter 'offset'"):
        net.offset = jg.zeros(3)
    with pytest.raises(TypeError, match="as buffer 'scale'"):
        net.scale = "x"
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        _ = net.missing


def test_registration_errors():
    net = Net()
    with pytest.raises(KeyError, match="already exists"):
        net.register_buffer("depth", jg.zeros(1))
    with pytest.raises(KeyError, match="t contain"):
        net.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="t be empty"):
        net.add_module("", nn.Identity())
    with pytest.raises(TypeError, match="not a Module subclass"):
        net.add_module("x", 3)
    with pytest.raises(ValueError, match="non-leaf"):
        net.register_parameter("y", _non_leaf())

    class Forgets(nn.Module):
        def __init__(self):
            self.a = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="before Module"):
        Forgets()
    with pytest.raises(NotImplementedError, match="forward"):
        nn.Module()(1)


def _non_leaf():
    x = nn.Parameter(jg.zeros(3))
    x._node = (jg.ones(3, requires_grad=True) * 2)._node
    return x


def test_state_dict_round_trip_and_errors():
    net, other = Net(), Net()
    state = net.state_dict()
    assert list(state) == ["offset", "conv.weight", "conv.bias", "head.1.weight"]
    assert state._metadata["conv"] == {"version": 1}
    assert not any(t.requires_grad for t in state.values())
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
        assert p is not q
    state["offset"] += 1  # it shares memory
    assert net.offset.sum().item() == 3
    bad = OrderedDict(state)
    del bad["offset"]
    bad["conv.bias"] = jg.zeros(5)
    bad["extra"] = jg.zeros(1)
    with pytest.raises(RuntimeError) as error:
        other.load_state_dict(bad)
    assert str(error.value) == (
        "Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "offset". \n'
        '\tUnexpected key(s) in state_dict: "extra". \n'
        "\tsize mismatch for conv.bias: copying a param with shape jitgrad.Size([5]) from checkpoint, "
        "the shape in current model is jitgrad.Size([2])."
    )
    del bad["conv.bias"]
    keys = other.load_state_dict(bad, strict=False)
    assert keys.missing_keys == ["offset", "conv.bias"] and keys.unexpected_keys == ["extra"]
    given = {k: v.double() for k, v in net.state_dict().items()}
    other.load_state_dict(given, assign=True)
    assert other.offset.dtype is jg.float64 and isinstance(other.offset, nn.Parameter) and other.offset.requires_grad


def test_extra_state_and_hooks_of_the_state_dict():
    class Counting(nn.Linear):
        calls = 0

        def get_extra_state(self):
            return {"calls": self.calls}

        def set_extra_state(self, state):
            self.calls = state["calls"]

    a, b = Counting(1, 1), Counting(1, 1)
    a.calls = 5
    seen = []
    b.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys.missing_keys))
    a.register_state_dict_post_hook(lambda module, state, prefix, local: state.__delitem__("bias"))
    b.load_state_dict(a.state_dict(), strict=False)
    assert b.calls == 5 and seen == [["bias"]]


def test_forward_hooks():
    layer = nn.Linear(2, 2)
    log = []
    pre = layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    post = layer.register_forward_hook(lambda m, args, out: log.append(args[0].sum().item()))
    first = layer.register_forward_hook(lambda m, args, out: log.append("first"), prepend=True)
    layer(jg.ones(1, 2))
    assert log == ["first", 4.0]
    for handle in (pre, post, first):
        handle.remove()
    with layer.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["x"], with_kwargs=True):
        assert layer._forward_hooks
    assert not layer._forward_hooks and not layer._forward_pre_hooks
    layer.register_forward_hook(lambda m, args, out: log.append(out), always_call=True)
    with pytest.raises(RuntimeError):
        layer(jg.ones(1, 3))
    assert log[-1] is None


def test_modes_and_gradients():
    net = Net()
    assert net.eval() is net and not net.head[1].training
    net.train()
    assert net.head[1].training
    with pytest.raises(ValueError, match="boolean"):
        net.train(1)
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    net.requires_grad_(True)
    net(jg.ones(1, 1, 4, 4)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert not net.offset.grad.any()
    net.zero_grad()
    assert net.offset.grad is None


def test_conversion_and_apply():
    net = Net()
    net(jg.ones(1, 1, 4, 4)).sum().backward()
    offset = net.offset
    net.double()
    assert net.offset is offset and offset.dtype is jg.float64 and offset.grad.dtype is jg.float64
    assert net.scale.dtype is jg.float64
    assert net(jg.ones(1, 1, 4, 4, dtype=jg.float64)).dtype is jg.float64
    net.to(jg.float32)
    assert net.offset.dtype is jg.float32
    with pytest.raises(TypeError, match="floating point"):
        net.to(jg.int32)
    with pytest.raises(RuntimeError):
        net.to("cuda")
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Conv2d", "Flatten", "Linear", "Sequential", "Net"]


def test_batch_norm_count_keeps_its_dtype():
    assert nn.BatchNorm2d(2).half().num_batches_tracked.dtype is jg.int64


def test_repr():
    assert repr(Net()) == (
        "Net(\n"
        "  (conv): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))\n"
        "  (head): Sequential(\n"
        "    (0): Flatten(start_dim=1, end_dim=-1)\n"
        "    (1): Linear(in_features=8, out_features=3, bias=False)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])) == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    )
    assert repr(nn.Parameter(jg.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"


@pytest.mark.parametrize("how", ["deepcopy", "copy", "pickle"])
def test_copies_are_whole_and_apart(how):
    net = Net()
    net.register_forward_hook(_twice)
    other = {"deepcopy": copy.deepcopy, "copy": copy.copy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}[how](net)
    x = jg.randn(1, 1, 4, 4)
    np.testing.assert_array_equal(net(x).detach().numpy(), other(x).detach().numpy())
    assert isinstance(other.offset, nn.Parameter) and other.offset.requires_grad
    assert (other.offset is net.offset) == (how == "copy")
    before, mine = net._epoch, other._epoch
    other.conv.training = False
    other.extra = 3
    assert other._epoch != mine
    assert (net._epoch != before) == (how == "copy")  # a shallow copy shares the layer inside
    assert not hasattr(net, "extra")


def _twice(module, args, output):
    return output * 2


def test_modules_die_without_the_garbage_collector():
    net = Net()
    ref = weakref.ref(net)
    gc.collect()
    gc.disable()
    try:
        del net
        assert ref() is None
    finally:
        gc.enable()


CHANGES = {
    "attribute": lambda net: setattr(net.head[1], "note", 3),
    "same attribute, other value": lambda net: setattr(net, "depth", 3),
    "other type": lambda net: setattr(net, "depth", 2.0),
    "deleted attribute": lambda net: delattr(net, "depth"),
    "parameter": lambda net: setattr(net.conv, "bias", None),
    "buffer": lambda net: setattr(net, "scale", jg.zeros(1)),
    "registry": lambda net: net.conv._parameters.update(bias=None),
    "submodule": lambda net: net.head.append(nn.ReLU()),
    "submodule deleted": lambda net: net.head.pop(0),
    "hook": lambda net: net.head[0].register_forward_hook(lambda *a: None),
    "mode": lambda net: net.head[1].eval(),
    "state": lambda net: net.load_state_dict(net.state_dict()),
    "requires_grad": lambda net: net.conv.requires_grad_(False),
    "conversion": lambda net: net.double(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_count_up_to_the_root(change):
    net = Net()
    outer = nn.ModuleList([nn.Sequential(net)])
    before = outer._epoch, net._epoch
    CHANGES[change](net)
    assert outer._epoch != before[0] and net._epoch != before[1]


def test_what_changes_nothing_does_not_count():
    net = Net()
    outer = nn.Sequential(net)
    before = outer._epoch
    net.depth = 2
    net.conv = net.conv
    net.offset = net.offset
    net.train()
    net.requires_grad_(True)
    net(jg.ones(1, 1, 4, 4)).sum().backward()
    net.zero_grad()
    with jg.no_grad():
        net.offset.add_(1)
    nn.Identity().training = False
    assert outer._epoch == before


def test_a_module_taken_out_no_longer_counts():
    net = Net()
    conv = net.conv
    net.conv = nn.Identity()
    before = net._epoch
    conv.eval()
    assert net._epoch == before


def test_switching_modes_back_restores_the_number():
    net = Net()
    outer = nn.Sequential(net)
    training = outer._epoch
    outer.eval()
    evaluating = outer._epoch
    assert evaluating != training
    outer.train()
    assert outer._epoch == training
    net.conv.eval()
    assert outer._epoch not in (training, evaluating)
    outer.eval()
    assert outer._epoch == evaluating


def test_removing_a_hook_counts():
    layer = nn.ReLU()
    handle = layer.register_forward_hook(lambda *a: None)
    before = layer._epoch
    handle.remove()
    assert layer._epoch != before
