"""The text form: exact round trips, stable numbering, errors that say where and what."""

import math

import ml_dtypes
import numpy as np
import pytest

from jitgrad.ir import dtypes
from jitgrad.ir.analysis import equal
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import InternalError, InvalidGraphError, ParseError
from jitgrad.ir.graph import Graph
from jitgrad.ir.location import TextLocation, user_location
from jitgrad.ir.op import Op, op
from jitgrad.ir.ops.arithmetic import Add, Neg
from jitgrad.ir.ops.creation import Constant, Full, Literal
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.ops.slicing import Slice
from jitgrad.ir.ops.write import WriteView
from jitgrad.ir.parser import parse
from jitgrad.ir.printer import canonical_text, to_text
from jitgrad.ir.types import CPU, Device, TensorType

F = TensorType((2, 3), dtypes.float32)


@op
class Everything(Op):
    """An op with fields of all types."""

    number: float
    whole: int
    flag: bool
    words: str
    maybe: int | None
    dtype: dtypes.DType
    many: tuple[float, ...]
    pair: tuple[int, str]
    value: complex
    device: Device = CPU
    inner: Op = Neg()
    name = "everything"

    def infer(self, *operands):
        return operands


@op
class Branch(Op):
    """An op with a sub-graph."""

    body: Graph
    name = "branch"

    def infer(self, *operands):
        return tuple(v.type for v in self.body.outputs)


OPS = {cls.name: cls for cls in (Everything, Branch, Add, Neg, Full, Constant, MatMul, Permute)}


def round_trip(graph, ops=OPS):
    text = to_text(graph, "f")
    back = parse(text, ops)
    assert equal(graph, back, names=True, locations=True), text
    assert to_text(back, "f") == text
    assert canonical_text(back) == canonical_text(graph)
    return text


def one_node(made, *types):
    b = Builder()
    operands = [b.input(t) for t in types]
    return b.build(b.emit(made, *operands))


DEFAULTS = {
    "number": 0.1, "whole": 1, "flag": True, "words": "", "maybe": None, "dtype": dtypes.bool_, "many": (),
    "pair": (1, "a"), "value": 1j,
}  # fmt: skip


def everything(**fields):
    return Everything(**(DEFAULTS | fields))


def test_a_small_graph():
    b = Builder()
    x, w = (
        b.input(TensorType((32, 64), dtypes.float32), "x"),
        b.input(TensorType((64, 10), dtypes.float32), "w"),
    )
    b.location, b.scope = TextLocation("model.py:41"), ("MLP", "head")
    y = b(MatMul(), x, w)
    b.location, b.scope = None, ()
    assert round_trip(b.build([b(Neg(), y)])) == (
        "graph f(%x: f32[32,64], %w: f32[64,10]) -> (f32[32,10]) {\n"
        '  %2 = matmul(%x, %w) : f32[32,10]                     at "model.py:41" in "MLP", "head"\n'
        "  %3 = neg(%2) : f32[32,10]\n"
        "  return %3\n"
        "}"
    )


@pytest.mark.parametrize(
    "number",
    [
        0.1,
        -0.0,
        0.0,
        1.0,
        1e300,
        5e-324,
        math.inf,
        -math.inf,
        math.nan,
        1e16,
        -1.5e-7,
        1,
        -3,
        np.float64(0.3),
    ],
)
def test_floats(number):
    round_trip(one_node(everything(number=number), F))


@pytest.mark.parametrize(
    "fields",
    [
        {"whole": -(10**30)}, {"flag": False}, {"maybe": 7}, {"dtype": dtypes.bfloat16},
        {"words": 'a "quoted"\n\tline\\ # %x } \u00e9 \u2028 \U0001f600 \ud800'},
        {"many": (math.nan, -0.0, 1.0)}, {"many": (1.0,)}, {"pair": (-1, "")},
        {"value": complex(-0.0, math.nan)}, {"value": complex(math.inf, 1e-300)},
        {"device": Device("cuda", 1)}, {"device": Device("cuda")}, {"inner": Permute((1, 0))},
        {"inner": Full((2,), dtypes.float32, math.nan)}, {"inner": Add()},
    ],
)  # fmt: skip
def test_fields(fields):
    round_trip(one_node(everything(**fields), F))


def test_a_field_without_text_form():
    with pytest.raises(InternalError, match="a field of type bytes has no text form"):
        to_text(one_node(everything(number=b""), F))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 2), (3, 0, 2), (5, 7)])
def test_literals(dtype, shape):
    random = np.random.default_rng(1)
    bits = random.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)  # any bits: NaNs with payloads too
    if dtype.kind == "bool":
        bits %= 2
    array = np.frombuffer(bits.tobytes(), dtype.np).reshape(shape)
    graph = one_node(Constant(Literal(array)))
    back = parse(round_trip(graph)).nodes[0].op.literal.array
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("number", [0.1, -0.0, math.inf, math.nan, 5e-324, 3.4e38])
@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.is_differentiable], ids=str)
def test_literals_of_awkward_numbers(dtype, number):
    with np.errstate(all="ignore"):
        array = np.asarray([number, 1.0]).astype(dtype.np)
    text = round_trip(one_node(Constant(Literal(array))))
    assert '"' not in text  # written out, not as base64


def test_short_floats_read_back_exactly():
    array = np.frombuffer(np.random.default_rng(0).bytes(4 * 16), np.float32)
    assert parse(to_text(one_node(Constant(Literal(array))))).nodes[0].op.literal.array.tobytes() == array.tobytes()
    half = np.arange(16).astype(ml_dtypes.bfloat16) / 7
    assert "0.142578" in to_text(one_node(Constant(Literal(half))))


def test_ops_in_tuples():
    views = (Slice((0, 1), (2, 2), (1, 1)), Permute((1, 0)))
    graph = one_node(WriteView(views), F, TensorType((2, 2), dtypes.float32))
    assert equal(parse(to_text(graph)), graph)


def test_sub_graphs():
    inner = one_node(Neg(), F)
    middle = one_node(Branch(inner), F)
    text = round_trip(one_node(Branch(middle), F))
    assert text.count("\n    ") > 3


def test_names():
    b = Builder()
    values = [b.input(F, name) for name in ("x", "x", "layer.0.w", "0", "a b", "x~2", '"', "", "é", "graph")]
    b(Neg(), values[0]).name = "x"
    text = round_trip(b.build(values))
    assert "%x~2:" in text and '%"a b"' in text


def test_locations_of_user_code():
    b = Builder()
    b.location = user_location()
    graph = b.build([b(Neg(), b.input(F))])
    text = to_text(graph)
    assert "test_text.py" in text and "in test_locations_of_user_code" in text
    assert equal(parse(text), graph, locations=True)


def test_several_results_and_none():
    @op
    class Results(Op):
        """As many results as operands."""

        name = "results"

        def infer(self, *operands):
            return operands

    b = Builder()
    x, y = b.input(F), b.input(TensorType((), dtypes.int64, Device("cuda", 0)))
    b.emit(Results())
    text = round_trip(b.build(b.emit(Results(), x, y)), {"results": Results})
    assert "  results()\n" in text and "%2, %3 = results(%0, %1) : f32[2,3], i64[]@cuda:0\n" in text


def test_canonical_text_has_no_names_and_no_locations():
    texts = set()
    for name, line in (("x", "a.py:1"), ("y", "b.py:2")):
        b = Builder()
        b.location, b.scope = TextLocation(line), (name,)
        texts.add(canonical_text(b.build([b(Neg(), b.input(F, name))])))
    assert texts == {"graph(%0: f32[2,3]) -> (f32[2,3]) {\n  %1 = neg(%0) : f32[2,3]\n  return %1\n}"}


def test_canonical_text_tells_large_literals_apart():
    one, two = (one_node(Constant(Literal(np.full(1000, v)))) for v in (0.0, -0.0))
    assert canonical_text(one) != canonical_text(two)
    assert len(canonical_text(one)) < 300


def test_comments_and_free_form():
    text = "graph f ( %x : f32 [ 2 , 3 ] ) # comment\n->(f32[2,3]){%y=neg(%x):f32[2,3] return %y # }\n}\n"
    assert equal(parse(text), one_node(Neg(), F))


HEAD = "graph(%x: f32[2,3]) -> (f32[2,3]) {\n"
MALFORMED = [
    ("", "line 1, column 1: expected 'graph', found the end of the text"),
    ("grph() -> () { return }", "line 1, column 1: expected 'graph', found 'grph'"),
    ("graph() -> () { return } x", "expected the end of the text, found 'x'"),
    (HEAD + "  return %y\n}", "line 2, column 10: %y is not defined"),
    (HEAD + "  %x = neg(%x) : f32[2,3]\n  return %x\n}", "line 2, column 3: %x is defined twice"),
    (HEAD + "  %y = negg(%x) : f32[2,3]", "line 2, column 8: there is no op called 'negg'"),
    (HEAD + "  %y = neg(%x) : f32[2]", "the types of the results are f32[2,3], not f32[2]"),
    (HEAD + "  %y, %z = neg(%x) : f32[2,3]", "op 'neg' has 1 results, not 2"),
    (HEAD + "  neg(%x)", "op 'neg' has 1 results, not 0"),
    (HEAD + "  %y = neg(%x, 3) : f32[2,3]", "line 2, column 16: expected a value, found '3'"),
    (HEAD + "  %y = add(%x) : f32[2,3] return %y }", "op add takes 2 operands, not 1"),
    (HEAD + "  %y = permute(%x) : f32[2,3]", "op 'permute' needs field 'perm'"),
    (HEAD + "  %y = permute[perm=(1, 0), perm=(1, 0)](%x)", "field 'perm' is given twice"),
    (HEAD + "  %y = permute[prm=(1, 0)](%x)", "op 'permute' has no field 'prm'"),
    (HEAD + "  %y = permute[perm=1](%x)", "column 21: field 'perm' of op 'permute' must be tuple[int, ...]"),
    (HEAD + "  %y = permute[perm=(1, true)](%x)", "must be tuple[int, ...]"),
    (HEAD + "  %y = permute[perm=(1, 1)](%x)", "permute: [1, 1] is no order of 2 axes"),
    (HEAD + "  %y = permute[perm=(1 0)](%x)", "expected ',', found '0'"),
    (HEAD + "  %y = permute[perm=](%x)", "expected the value of a field, found ']'"),
    (HEAD + "  ?", "line 2, column 3: unexpected character '?'"),
    (HEAD + '  %y = "', "unexpected character '\"'"),
    (HEAD + "  return %x, %x }", "the types of the outputs are f32[2,3], f32[2,3], not f32[2,3]"),
    ("graph(%x: f33[2]) -> () { return }", "line 1, column 11: expected a type, found 'f33'"),
    ("graph(%x: f32[-2]) -> () { return }", "expected an axis length, found '-2'"),
    ("graph(%x: f32[2.0]) -> () { return }", "expected an axis length, found '2.0'"),
    ("graph(%x: f32[" + "9" * 5000 + "]) -> () { return }", "number too long"),
    ("graph(%x: f32[" + "9" * 30 + "]) -> () { return }", "larger than any memory"),
    ("graph(%x: f32[99999999999,99999999999]) -> () { return }", "larger than any memory"),
    ("graph(%x: f32[" + "1," * 70 + "1]) -> () { return }", "larger than any memory"),
    ("graph() -> () { %y = neg[" + "x=(" * 5000, "no field"),
    ('graph(%"\\x": f32[2]) -> () { return }', "malformed string"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_text(text, message):
    with pytest.raises((ParseError, InvalidGraphError)) as caught:
        parse(text)
    assert message in str(caught.value)


LITERALS = [
    ('array(f32[2], "AAAA")', "f32[2] needs 8 bytes, not 3"),
    ('array(f32[999999999999], "AAAA")', "bytes, not 3"),
    ('array(f32[2], "A*AA")', "malformed base64"),
    ("array(f32[3], [1.0, 2.0])", "f32[3] needs 3 elements, not 2"),
    ("array(f32[99999999], [1.0, 2.0])", "elements, not 2"),
    ("array(f32[1], [true])", "expected an element of type float32, found 'true'"),
    ("array(i8[1], [300])", "'300' does not fit int8"),
    ("array(u8[1], [-1])", "'-1' does not fit uint8"),
    ("array(i8[1], [1.5])", "expected an element of type int8"),
    ("array(bool[1], [1])", "expected an element of type bool"),
    ("array(f32[1]@cuda:0, [1.0])", "an array literal has no device"),
    ("array(c64[1], [1.0])", "expected an element of type complex64"),
    ("1", "field 'literal' of op 'constant' must be Literal"),
    ("(" * 100, "nested too deeply"),
    ("neg[]", "must be Literal"),
]


@pytest.mark.parametrize(("literal", "message"), LITERALS)
def test_malformed_literal(literal, message):
    with pytest.raises(ParseError) as caught:
        parse(f"graph() -> () {{ %0 = constant[literal={literal}]() : f32[2] return }}")
    assert message in str(caught.value)


def test_deeply_nested_graphs():
    text = "graph() -> () { branch[body=" * 1000
    with pytest.raises(ParseError, match="nested too deeply"):
        parse(text, OPS)


def test_error_shows_the_line():
    with pytest.raises(ParseError) as caught:
        parse(HEAD + "  %y = neg(%x) : f33[2,3]\n")
    lines = str(caught.value).split("\n")
    assert lines[1:] == ["    %y = neg(%x) : f33[2,3]", "                   ^"]
