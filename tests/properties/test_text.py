"""Printing and parsing random graphs, and parsing what random edits make of their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.strategies import graphs

from jitgrad.ir.analysis import equal
from jitgrad.ir.errors import InvalidGraphError, ParseError
from jitgrad.ir.parser import parse
from jitgrad.ir.printer import canonical_text, to_text
from jitgrad.ir.verify import verify

PIECES = ["%0", "%1", "(", ")", "[", "]", "{", "}", ",", ":", "=", "@", '"', "#", "\n", "-",
"99999999999999999999",           "nan", "inf", "true", "none", "f32[2]", "graph", "return", "at", "in",
"array(", "complex(", "add", "slice[",           "1e999", "\\", "\x00", "é"]  # fmt: skip


@given(case=graphs())
def test_round_trip(case):
    graph, _ = case
    text = to_text(graph)
    back = parse(text)
    assert equal(graph, back, names=True, locations=True)
    assert to_text(back) == text
    assert canonical_text(back) == canonical_text(graph)


@given(case=graphs(max_nodes=4), data=st.data())
def test_edited_text_gives_a_valid_graph_or_a_parse_error(case, data):
    text = to_text(case[0])
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = min(len(text), start + data.draw(st.integers(0, 4)))
        text = text[:start] + data.draw(st.sampled_from(["", *PIECES, text[start : start + 9]])) + text[stop:]
    try:
        graph = parse(text)
    except (ParseError, InvalidGraphError):
        return
    verify(graph)
    assert equal(parse(to_text(graph)), graph)


@given(st.text())
def test_any_text_gives_a_parse_error(text):
    with pytest.raises(ParseError):
        parse(text)
