"""What scripts of PyTorch's earlier years begin with: tensor types, `Variable`, switches of libraries, old paths."""

import copy
import pickle

import numpy as np
import pytest
from torch_oracle import check

import jitgrad as jg

PROGRAMS = """
L.Tensor([[1, 2], [3, 4]])
L.Tensor((2, 3))
L.Tensor(np.arange(3))
L.Tensor()
L.Tensor(2, 0)
L.Tensor(L.Size([2, 3])).fill_(1)
L.Tensor(x * 2)
L.Tensor(2.5)
L.Tensor("a")
L.LongTensor([1, 2])
L.LongTensor(range(3))
L.ByteTensor([1]), L.DoubleTensor([1]), L.HalfTensor([1]), L.BoolTensor([True])
L.FloatTensor(2, 3).shape
isinstance(f, L.FloatTensor), isinstance(f, L.LongTensor), isinstance(n, L.LongTensor), L.FloatTensor.dtype
f.type(L.LongTensor)
f.new((2, 3)), f.new(4).shape, f.new(L.Size([2])).shape, n.new([1.0])
L.nn.Parameter(L.Tensor(2, 3)).shape
L.nn.Parameter(L.FloatTensor([1, 2]))
L.autograd.Variable(f, requires_grad=True) * 2
isinstance(f, L.autograd.Variable), isinstance(3, L.autograd.Variable)
L.autograd.grad((x * 2).sum(), {"x": x}.values())
L.autograd.grad((m @ m).sum(), (t for t in (m,)))
""".strip().splitlines()


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program):
    check(program)


class Named(jg.Tensor):
    """A subclass with an argument of its own."""

    def __new__(cls, data, name="x"):
        made = super().__new__(cls, data)
        made.name = name
        return made

    def __init__(self, data, name="x"):
        pass


def test_subclasses_are_made_by_their_own_arguments():
    t = Named([1.0, 2.0], name="y")
    assert isinstance(t, Named) and t.name == "y" and t.tolist() == [1.0, 2.0]
    assert copy.deepcopy(t).name == pickle.loads(pickle.dumps(t)).name == "y"
    history = Named(jg.ones(2, requires_grad=True) * 2)
    assert history.grad_fn is not None
    leaf = jg.Tensor._make_subclass(Named, jg.ones(2), True)
    assert type(leaf) is Named and leaf.is_leaf and leaf.requires_grad


def test_tensors_are_made_inside_compiled_functions():
    f = jg.compile(lambda a: jg.Tensor([1, 2, 3]) + jg.LongTensor([1, 2, 3]) + jg.Tensor(3).fill_(1) + a)
    for _ in range(2):
        assert f(jg.ones(())).tolist() == [4.0, 6.0, 8.0]


@pytest.mark.parametrize("block", [jg.no_grad, jg.inference_mode])
def test_numpy_takes_what_requires_gradients_where_nothing_is_recorded(block):
    x = jg.ones(3, requires_grad=True)
    with block():
        assert x.numpy().tolist() == np.asarray(x).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(x)


def test_switches_of_libraries_are_there():
    import jitgrad.backends.cudnn as cudnn

    cudnn.benchmark = cudnn.deterministic = True
    jg.backends.cuda.matmul.allow_tf32 = True
    with cudnn.flags(enabled=False):
        assert cudnn.version() is None
    libraries = (jg.backends.cudnn, jg.backends.mps, jg.backends.mkl, jg.backends.mkldnn, jg.backends.openmp)
    assert not any(library.is_available() for library in libraries)
    cudnn.benchmark = cudnn.deterministic = jg.backends.cuda.matmul.allow_tf32 = False


def test_old_paths_lead_to_the_classes():
    from jitgrad.nn.modules.batchnorm import _BatchNorm
    from jitgrad.nn.modules.conv import _ConvNd
    from jitgrad.nn.modules.loss import _Loss
    from jitgrad.nn.modules.utils import _pair, _triple
    from jitgrad.utils.data.dataloader import DataLoader, default_collate

    assert isinstance(jg.nn.BatchNorm2d(2), _BatchNorm) and not isinstance(jg.nn.LayerNorm(2), _BatchNorm)
    assert isinstance(jg.nn.Conv1d(1, 1, 1), _ConvNd) and isinstance(jg.nn.MSELoss(), _Loss)
    assert _pair(3) == (3, 3) and _triple([1, 2, 3]) == (1, 2, 3)
    assert DataLoader is jg.utils.data.DataLoader and default_collate is jg.utils.data.default_collate
    assert jg.nn.modules.container.Sequential is jg.nn.Sequential and jg.nn.modules.linear.Linear is jg.nn.Linear
    assert jg.nn.modules.Module is jg.nn.Module


def test_data_parallel_is_its_module():
    inner = jg.nn.Linear(2, 1)
    model = jg.nn.DataParallel(inner)
    x = jg.ones(3, 2)
    assert (model(x) == inner(x)).all() and model.module is inner
    assert list(model.state_dict()) == ["module.weight", "module.bias"]


def test_forked_random_numbers_leave_the_generator_alone():
    jg.manual_seed(0)
    with jg.random.fork_rng():
        inside = jg.rand(3)
    assert (jg.rand(3) == inside).all()
    jg.manual_seed(0)
    with jg.random.fork_rng(enabled=False):
        jg.rand(3)
    assert not (jg.rand(3) == inside).all()
