"""Writing dumps: while compiling, afterwards, with times, and what happens where it can't be done."""

import json
import threading

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.dump import observer_for
from jitgrad.dump.scopes import Phases
from jitgrad.dump.source import NOWHERE, Places
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError
from jitgrad.ir.location import TextLocation, user_location
from jitgrad.ir.parser import parse


def compiled(**options):
    f = jg.compile(lambda x, w: (x @ w).tanh().sum(), **options)
    f(jg.ones(4, 5), jg.ones(5, 3))
    return f


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_while_compiling_and_afterwards_the_same_is_written(tmp_path):
    f = compiled(dump=str(tmp_path / "first"))
    (second,) = f.dump(tmp_path / "second")
    (first,) = (tmp_path / "first").iterdir()
    assert names(first) == names(second) and "index.html" in names(first)
    for name in names(first):
        if name != "index.html":  # which has the times of compiling in it
            assert (first / name).read_text() == (second / name).read_text(), name


@pytest.mark.parametrize("numerics", ["default", "strict"])
def test_what_was_prepared_for_tiles_is_written_afterwards_too(tmp_path, numerics):
    def attention_of_pixels(x, w):
        y = jg.nn.functional.conv2d(x, w, padding=1).flatten(2).unsqueeze(1)
        return jg.nn.functional.scaled_dot_product_attention(y, y, y).tanh()

    f = jg.compile(attention_of_pixels, dump=str(tmp_path / "first"), numerics=numerics)
    f(jg.ones(2, 16, 8, 8), jg.ones(16, 16, 3, 3))
    (second,) = f.dump(tmp_path / "second")
    (first,) = (tmp_path / "first").iterdir()
    assert names(first) == names(second)
    texts = [[(folder / n).read_text() for n in names(folder) if n.endswith(".txt")] for folder in (first, second)]
    assert texts[0] == texts[1] and any("tile_" in text for text in texts[0])


def test_the_switch(tmp_path, monkeypatch):
    monkeypatch.setattr(jg.config, "dump", str(tmp_path))
    compiled()
    x = jg.ones(3, requires_grad=True)
    for _ in range(3):
        (x.tanh() * x.exp()).sum().backward()
    found = [p.name for p in tmp_path.iterdir()]
    assert any("lambda" in n for n in found) and any("backward" in n for n in found)
    assert all((p / "index.html").exists() for p in tmp_path.iterdir())


def test_each_specialisation_is_written(tmp_path):
    f = compiled()
    f(jg.ones(7, 5), jg.ones(5, 3))
    folders = f.dump(tmp_path)
    assert [p.name[:4] for p in folders] == ["000-", "001-"]
    assert "f32[7,5]" in (folders[1] / "00-traced.txt").read_text()


def test_modules_executables_and_programs(tmp_path):
    net = jg.compile(jg.nn.Linear(4, 2))
    net(jg.ones(3, 4))
    (folder,) = jg.dump.write(net, tmp_path)
    assert "linear" in (folder / "00-traced.txt").read_text()
    executable = compiled().explain().specialisations[0].executable
    (folder,) = jg.dump.write(executable, tmp_path)
    assert "index.html" in names(folder)
    program = jg.export(lambda x: x.tanh(), (jg.ones(4, 3),), dynamic={"x": {0: "n"}})
    (folder,) = jg.dump.write(program, tmp_path, sizes={"n": 6}, measure=True)
    assert "f32[6,3]" in (folder / "00-traced.txt").read_text()
    program.dump(tmp_path, {"n": 9})
    assert "f32[9,3]" in (max(tmp_path.iterdir()) / "00-traced.txt").read_text()


def test_what_can_not_be_dumped(tmp_path):
    with pytest.raises(ArgumentError, match="call it first"):
        jg.compile(lambda x: x).dump(tmp_path)
    with pytest.raises(ArgumentTypeError, match="not int"):
        jg.dump.write(3, tmp_path)


def test_measuring():
    f = compiled()
    (timing,) = jg.dump.measure(f)
    executable = f.explain().specialisations[0].executable
    assert len(timing.steps) == len(executable.plan.steps) and timing.call > 0 and timing.runs >= 3
    x, w = jg.ones(4, 5), jg.ones(5, 3)
    assert len(jg.dump.measure(f, x, w).steps) == len(timing.steps)
    with pytest.raises(ArgumentError, match="call the function with them first"):
        jg.dump.measure(f, jg.ones(2, 5), w)


def test_measuring_changes_nothing():
    x, total = jg.ones(4), jg.zeros(4)

    @jg.compile
    def add(x):
        total.add_(x)
        return total * 2

    add(x)
    before = total.tolist()
    jg.dump.measure(add, x)
    jg.dump.measure(add)
    assert total.tolist() == before
    assert add(x).tolist() == [4.0] * 4


def test_a_fault_while_dumping_is_a_warning(tmp_path, monkeypatch):
    from jitgrad.dump import writer

    def broken(*arguments):
        raise ZeroDivisionError("no page")

    monkeypatch.setattr(writer, "page_html", broken)
    with pytest.warns(RuntimeWarning, match="is not dumped: ZeroDivisionError: no page"):
        f = compiled(dump=str(tmp_path))
    assert f(jg.zeros(4, 5), jg.ones(5, 3)).item() == 0.0
    (folder,) = tmp_path.iterdir()
    assert "00-traced.txt" in names(folder) and "index.html" not in names(folder)


def test_a_folder_that_can_not_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="nothing of .* is dumped: .* is a file") as caught:
        compiled(dump=str(tmp_path / "file"))
    assert {w.filename for w in caught} == {__file__}
    with pytest.warns(RuntimeWarning):
        assert observer_for(str(tmp_path / "file"), "f") is None


def test_parts_of_a_step():
    phases = Phases([("A", "b"), ()])
    assert phases.path(("A", "b")) == ("A", "b") and phases.path(()) == ()  # one part alone goes without saying
    phases = Phases([("A",), ("backward", "A")])
    assert phases.path(()) == ("forward",) and phases.path(("backward", "A")) == ("backward", "A")


def test_places():
    places = Places()
    here = user_location()
    first = places.number(here)
    assert places.number(here) == first and places.number(None) == NOWHERE
    read_back = places.number(TextLocation("model.py:41 in MLP.forward"))
    elsewhere = places.number(TextLocation("somewhere"))
    data = places.data()
    file, line, function = data["places"][first]
    assert "here = user_location()" in data["files"][file]["lines"][line] and function == "test_places"
    assert data["places"][read_back][1:] == [41, "MLP.forward"]
    assert data["files"][data["places"][read_back][0]] == {"path": "model.py", "lines": {}}
    assert data["places"][elsewhere][1:] == [0, ""]
    json.dumps(data)


def test_numbers_that_json_lacks(tmp_path):
    f = jg.compile(lambda x: jg.where(x > 0, x, float("inf")) + float("nan"))
    f(jg.ones(3))
    (folder,) = f.dump(tmp_path)
    assert (folder / "index.html").exists()


def test_graphs_that_passes_leave_as_they_are(tmp_path):
    graph = parse("graph(%x: f32[2]) -> (f32[2]) {\n %1 = tanh(%x) : f32[2]\n return %1\n}")
    executable = jg.codegen.compile_graph(graph, name="plain")
    (folder,) = jg.dump.write(executable, tmp_path)
    assert [n for n in names(folder) if n.startswith("0")][:2] == ["00-traced.txt", "01-groups.txt"]
    (out,) = executable([np.zeros(2, np.float32)])
    assert out.tolist() == [0.0, 0.0]


def test_dumping_and_compiling_at_once(tmp_path):
    f = compiled()
    faults = []

    def work(k):
        try:
            if k % 2:
                f.dump(tmp_path / str(k))
            else:
                g = jg.compile(lambda x: (x * (k + 2.0)).tanh().sum(0) + x.mean())
                assert g(jg.zeros(3, 4)).tolist() == [0.0] * 4
        except Exception as error:  # an assertion in a thread is seen by nobody else
            faults.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults
