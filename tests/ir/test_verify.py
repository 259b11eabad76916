"""One invalid graph for each rule of the verifier, and where its error points."""

import pytest

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import InvalidGraphError
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.location import TextLocation
from jitgrad.ir.op import Op, op
from jitgrad.ir.ops.arithmetic import Add, Neg
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.types import TensorType
from jitgrad.ir.verify import verify

F = TensorType((2, 3), dtypes.float32)


@op
class Branch(Op):
    """An op with sub-graphs."""

    graphs: tuple[Graph, ...]
    name = "branch"

    def infer(self, *operands):
        return (operands[0],)


@op
class Pair(Op):
    """An op with two results."""

    name = "pair"

    def infer(self, *operands):
        return operands * 2


def build():
    """`%y = neg(%x)`, `%z = add(%y, %y)`."""
    b = Builder()
    x = b.input(F, "x")
    y = b(Neg(), x)
    z = b(Add(), y, y)
    y.name, z.name = "y", "z"
    return b, x, y, z


def raises(graph, message):
    with pytest.raises(InvalidGraphError) as caught:
        verify(graph)
    assert message in str(caught.value)
    return str(caught.value)


def test_valid():
    b, *_, z = build()
    verify(b.build([z]))


def test_error_points_into_the_text():
    _, x, y, z = build()
    z.node.location = TextLocation("model.py:41 in MLP.forward")
    text = raises(Graph([x], [z.node, y.node], [z]), "operand 0 is used before it is defined")
    assert "\n>     %z = add(%y, %y) : f32[2,3]\n" in text
    assert text.endswith("at model.py:41 in MLP.forward")


def test_long_graphs_are_cut():
    b, x, _, z = build()
    for _ in range(100):
        z = b(Neg(), z)
    nodes = [*b.nodes[:50], *b.nodes[51:]]
    text = raises(Graph([x], nodes, [z]), "operand 0 is a free value")
    assert len(text.split("\n")) < 20 and "\n    ...\n>" not in text and text.count("\n    ...") == 2


def test_input_is_a_result():
    _b, _, y, z = build()
    raises(Graph([y], [z.node], [z]), "input 0 is the result of a node")


def test_input_is_there_twice():
    raises(Graph([x := Value(F), x], [], [x]), "input 1 is there twice")


@pytest.mark.parametrize("shape", [(2, -1), [2], (2.0,), (True,)])
def test_malformed_type(shape):
    x = Value(TensorType(shape, dtypes.float32))
    raises(Graph([x], [], [x]), "input 0 has a malformed type")


def test_malformed_dtype():
    foreign = dtypes.DType("float32", "f32", "f4", "float")
    x = Value(TensorType((), foreign))
    raises(Graph([x], [], [x]), "input 0 has a malformed type")


def test_malformed_result_type():
    x = Value(F)
    node = Node(Neg(), [x], [TensorType([2, 3], dtypes.float32)])
    raises(Graph([x], [node], node.results), "result 0 has a malformed type")


def test_node_is_there_twice():
    _, x, y, z = build()
    raises(Graph([x], [y.node, y.node, z.node], [z]), "node is in the graph twice")


def test_free_value():
    _, _x, y, z = build()
    raises(Graph([], [y.node, z.node], [z]), "operand 0 is a free value")
    verify(Graph([], [y.node, z.node], [z]), allow_free=True)


def test_used_before_defined_is_never_allowed():
    _, x, y, z = build()
    with pytest.raises(InvalidGraphError, match="before it is defined"):
        verify(Graph([x], [z.node, y.node], [z]), allow_free=True)


def test_output_is_undefined():
    _, x, y, z = build()
    raises(Graph([x], [y.node], [z]), "output 0 is not defined")


def test_op_is_not_interned():
    x = Value(F)
    stray = object.__new__(Neg)
    raises(Graph([x], [node := Node(stray, [x], [F])], node.results), "op neg is not interned")


def test_op_with_fields_is_not_interned():
    x = Value(F)
    stray = object.__new__(Permute)
    object.__setattr__(stray, "perm", (0, 1))
    raises(Graph([x], [node := Node(stray, [x], [F])], node.results), "op permute is not interned")


def test_infer_refuses():
    x, y = Value(F), Value(TensorType((3, 2), dtypes.float32))
    node = Node(Add(), [x, y], [F])
    raises(Graph([x, y], [node], node.results), "operands break a rule of the op: add: operand shapes differ")


@pytest.mark.parametrize("count", [0, 2])
def test_number_of_operands_of_a_pointwise_op(count):
    x = Value(F)
    node = Node(Neg(), [x] * count, [F])
    raises(Graph([x], [node], node.results), f"op neg takes 1 operands, not {count}")


@pytest.mark.parametrize("count", [0, 2])
def test_number_of_operands(count):
    x = Value(F)
    node = Node(Permute((0, 1)), [x] * count, [F])
    raises(Graph([x], [node], node.results), "operands do not fit the op")


def test_result_type():
    x = Value(F)
    node = Node(Neg(), [x], [F.with_dtype(dtypes.float64)])
    raises(Graph([x], [node], node.results), "result 0 should have type f32[2,3]")


def test_number_of_results():
    x = Value(F)
    node = Node(Neg(), [x], [F, F])
    raises(Graph([x], [node], node.results), "the op has 1 results, not 2")


def test_result_of_another_node():
    _, x, y, _z = build()
    other = Node(Neg(), [x], [F])
    other.results = y.node.results
    raises(Graph([x], [other], [y]), "result 0 belongs to another node")


def test_result_with_a_wrong_index():
    _, x, y, _z = build()
    y.index = 1
    raises(Graph([x], [y.node], [y]), "result 0 says it is result 1")


def test_result_listed_twice():
    node = Node(Pair(), [x := Value(F)], [F, F])
    node.results = (node.results[0],) * 2
    raises(Graph([x], [node], node.results), "result 1 says it is result 0")


def test_sub_graph_is_verified():
    _, x, y, z = build()
    bad = Graph([x], [y.node], [z])
    node = Node(Branch((bad,)), [x], [F])
    text = raises(Graph([x], [node], node.results), "sub-graph 'graphs' is invalid")
    assert "output 0 is not defined" in text


def test_sub_graph_is_closed():
    inner, outer = Value(F, name="inner"), Value(F, name="outer")
    node = Node(Branch((Graph([inner], [], [outer]),)), [outer], [F])
    raises(Graph([outer], [node], node.results), "output 0 is not defined")
