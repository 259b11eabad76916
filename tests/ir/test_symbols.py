"""Symbolic sizes: expressions, graphs that hold them, their text and their instances."""

import itertools
import pickle

import pytest

from jitgrad.ir import analysis
from jitgrad.ir.errors import ArgumentError, ParseError
from jitgrad.ir.expressions import ExpressionReader
from jitgrad.ir.instantiate import concrete, instantiate
from jitgrad.ir.ops.shape import Reshape
from jitgrad.ir.parser import parse
from jitgrad.ir.printer import canonical_text, to_text
from jitgrad.ir.symbols import SymbolicFloat, SymbolicInt, combine, number, symbol, symbolic
from jitgrad.ir.tokens import Tokens
from jitgrad.ir.verify import verify

N, M = symbol("n"), symbol("m")
SIZES = {"n": 7, "m": 4}
TEXT = """graph f(%x: f32[n,2*m-1]) -> (f32[n*(2*m-1)]) {
  %1 = reshape[shape=({2*n*m-n},)](%x) : f32[2*n*m-n]
  %2 = full[shape=({n*(2*m-1)},), dtype=f32, value={1/n}]() : f32[n*(2*m-1)]
  %3 = mul(%1, %2) : f32[(4*n*m-2*n)//2]
  return %3
}"""


def read(text, names=("n", "m")):
    tokens = Tokens(text)
    found = ExpressionReader(tokens, names).expression()
    assert tokens.current.kind == "end"
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [("n", 7), ("n+m*2", 15), ("n-1-m", 2), ("n-2*m", -1), ("(n-1)//2+1", 4), ("n*(m+1)", 35), ("n//m*2", 2),
     ("mod(n,m)", 3), ("min(n,3)+max(m,9)", 12), ("pow(m,3)", 64), ("n/m", 1.75), ("sqrt(m)", 2.0), ("-3+n", 4),
     ("n - 1", 6), ("n -1", 6), ("0.5*n", 3.5), ("log(m)", 1.3862943611198906), ("n-(m-1)", 4)],
)  # fmt: skip
def test_reading_evaluating_and_printing(text, value):
    found = read(text)
    assert found.at(SIZES) == value and type(found.at(SIZES)) is type(value)
    assert read(str(found)) == found


def test_polynomials_have_one_form():
    assert str((N + 1) * (M - 1)) == "m*n+m-n-1" and (N + 1) * (M - 1) == M * N - N + M - 1
    assert str(N - N) == "0" and N * 4 // 4 == N and str((N * 4 + 2) // 2) == "2*n+1"
    assert str(combine("min", N, number(3)) * 2 + N) == "2*min(n,3)+n"
    for a, b in itertools.product((N, M * N - 2, (N + 1) // 2, number(3)), repeat=2):
        for fn, f in (("+", lambda x, y: x + y), ("-", lambda x, y: x - y), ("*", lambda x, y: x * y)):
            made = combine(fn, a, b)
            assert made.at(SIZES) == f(a.at(SIZES), b.at(SIZES)) and read(str(made)).at(SIZES) == made.at(SIZES)


def test_floats_come_out_to_the_bit():
    e = combine("*", combine("/", number(1), N * M), number(0.1))
    assert e.at(SIZES) == 1 / 28 * 0.1 and read(str(e)) == e


def test_symbolic_graphs_print_read_and_instantiate():
    graph = parse(TEXT, sizes={"n": 4, "m": 3})
    assert [str(v.type) for v in graph.inputs] == ["f32[n,2*m-1]"]
    again = parse(to_text(graph, "f"), sizes={"n": 4, "m": 3})
    assert to_text(again, "f") == to_text(graph, "f")
    made = instantiate(graph, {"n": 7, "m": 5})
    verify(made)
    assert made.inputs[0].type.shape == (7, 9) and made.outputs[0].type.shape == (63,)
    assert made.nodes[1].op.value == 1 / 7 and type(made.nodes[0].op.shape[0]) is int
    assert analysis.equal(parse(to_text(made)), made)


def test_keys_of_caches_hold_no_symbols():
    graph = parse(TEXT, sizes={"n": 4, "m": 3})
    made = instantiate(graph, {"n": 4, "m": 3})
    assert "{" not in canonical_text(made).replace("{\n", "")


def test_ops_with_different_expressions_are_different_ops():
    a, b = (Reshape((symbolic(e, {"n": 4, "m": 4}),)) for e in (N, M))
    assert a is not b and concrete(a) is concrete(b) is Reshape((4,)) and Reshape((4,)) is not a
    assert a is Reshape((SymbolicInt(4, N),))


def test_symbolic_numbers_are_numbers():
    n, half = SymbolicInt(4, N), SymbolicFloat(0.5, combine("/", N, number(8)))
    assert n == 4 and n + 1 == 5 and half * 2 == 1.0 and str(n) == "n" and repr(half) == "n/8"
    assert pickle.loads(pickle.dumps(n)).expression == N
    assert symbolic(number(3), {}) == 3 and type(symbolic(number(3), {})) is int


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph(%x: f32[k]) -> (f32[k]) { return %x }", "column 15: there is no dimension called 'k'"),
        ("graph(%x: f32[n-9]) -> (f32[n-9]) { return %x }", "column 15: expected an axis length, found 'n'"),
        ("graph(%x: f32[n/2]) -> (f32[n/2]) { return %x }", "column 15: expected an axis length"),
        ("graph(%x: f32[n//0]) -> (f32[n//0]) { return %x }", "can't be computed"),
        ("graph(%x: f32[pow(n,99)]) -> (f32[1]) { return %x }", "exponent 99 is not within"),
        ("graph(%x: f32[n*pow(n,60)]) -> (f32[1]) { return %x }", "a size beyond any memory"),
        ("graph(%x: f32[n]) -> (f32[m]) { return %x }", r"the types of the outputs are f32\[n\], not f32\[m\]"),
        (f"graph(%x: f32[{'(' * 99}n{')' * 99}]) -> (f32[n]) {{ return %x }}", "nested too deeply"),
        (f"graph(%x: f32[{'+'.join('n' * 2000)}]) -> (f32[n]) {{ return %x }}", "too many parts"),
        ("graph() -> (f32[n]) { %1 = full[shape=({n}), dtype=f32, value=0.0]() : f32[n] return %1 }", "expected ','"),
        ("graph() -> (f32[1]) { %1 = full[shape=(1,), dtype=f32, value={sqrt(n-9)}]() : f32[1] return %1 }", "compute"),
    ],
)
def test_errors_name_the_place(text, message):
    with pytest.raises(ParseError, match=message):
        parse(text, sizes=SIZES)


def test_instances_that_do_not_exist():
    graph = parse("graph(%x: f32[n-2]) -> (f32[n-2]) { return %x }", sizes={"n": 4})
    assert instantiate(graph, {"n": 2}).inputs[0].type.shape == (0,)
    uneven = parse(
        "graph(%x: f32[n]) -> (f32[n//2,2]) { %1 = reshape[shape=({n//2}, 2)](%x) : f32[n//2,2] return %1 }",
        sizes={"n": 4},
    )
    with pytest.raises(ValueError, match="invalid graph"):
        verify(instantiate(uneven, {"n": 5}))
    divided = parse("graph(%x: f32[12//n]) -> (f32[12//n]) { return %x }", sizes={"n": 4})
    with pytest.raises(ArgumentError, match=r"12//n can't be computed at sizes \{'n': 0\}"):
        instantiate(divided, {"n": 0})
