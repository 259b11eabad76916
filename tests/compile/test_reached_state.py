"""State that is reached in unusual ways, and effects under other names: seen and had at each call, as eagerly."""

import collections
import contextvars
import functools
import glob
import io
import logging
import operator
import os
import pathlib
import queue
import threading
import types
import warnings

import pytest
from programs_compared import agree

import jitgrad as jg

X = jg.tensor([1.0, 2.0, 3.0])


def _context_variable(compile):
    scale = contextvars.ContextVar("scale", default=1)
    f = compile(lambda x: x * scale.get())
    for k in range(4):
        yield f(X)
        scale.set(k + 2)


def _library_object(compile):
    waiting, event = queue.Queue(), threading.Event()

    @compile
    def f(x):
        waiting.put(1)
        return x * waiting.qsize() + event.is_set()

    for _ in range(4):
        yield f(X), waiting.qsize()
        event.set()


def _inherited_from_a_library(compile):
    class Numbered(queue.Queue):
        def add(self):
            self.put(1)
            return self.qsize()

    waiting = Numbered()
    f = compile(lambda x: x * waiting.add())
    for _ in range(4):
        yield f(X), waiting.qsize()


def _views_of_containers(compile):
    table, raw = {"a": 1}, bytearray(b"ab")
    proxy, keys, values, memory = types.MappingProxyType(table), table.keys(), table.values(), memoryview(raw)
    f = compile(lambda x: x * proxy["a"] + len(keys) + sum(values) + memory[0])
    yield f(X)
    table["a"] = 3
    yield f(X)
    table["b"] = 5
    yield f(X)
    raw[0] = 7
    yield f(X)


def _bases(compile):
    class Base:
        scale = 2

        def run(self, x):
            return x * self.scale

    class Other:
        def run(self, x):
            return x - 1

    class Derived(Base):
        def run(self, x):
            return super().run(x) + 1

    f = compile(Derived().run)
    yield f(X)
    Base.scale = 5
    yield f(X)
    Base.run = lambda self, x: x + self.scale
    yield f(X)
    Derived.__bases__ = (Other,)
    yield f(X)


def _patterns(compile):
    class Options:
        mode, scale = "a", 2

    options = Options()

    @compile
    def f(x):
        match options:
            case Options(mode="a", scale=scale):
                return x * scale
            case _:
                return x

    yield f(X)
    options.scale = 5
    yield f(X)
    options.mode = "b"
    yield f(X)


def _getters(compile):
    class Options:
        scale, count = 2, 0

        def add(self):
            self.count += 1
            return self.count

    options = Options()
    scale, add = operator.attrgetter("scale"), operator.methodcaller("add")
    f, g = compile(lambda x: x * scale(options)), compile(lambda x: x * add(options))
    for k in range(3):
        yield f(X), g(X), options.count
        options.scale = k + 5


def _logger(compile):
    logger = logging.getLogger("tests.reached_state")
    f = compile(lambda x: x * 2 if logger.isEnabledFor(logging.INFO) else x)
    for level in (logging.ERROR, logging.DEBUG, logging.ERROR):
        logger.setLevel(level)
        yield f(X)


def _files(compile, folder):
    path = pathlib.Path(folder) / "marker"
    f = compile(lambda x: x * 2 if path.exists() else x)
    g = compile(lambda x: x + len(os.listdir(folder)))
    h = compile(lambda x: x + len(glob.glob(f"{folder}/*")))
    read = compile(lambda x: x * int(path.read_text()) if os.path.isfile(path) else x)
    for content in (None, "3", "5"):
        if content:
            path.write_text(content)
        yield f(X), g(X), h(X), read(X)


def _effects_under_other_names(compile):
    out, calls = io.StringIO(), {"show": print}
    write, show = out.write, functools.partial(print, file=out)

    @compile
    def f(x):
        write("a")
        show("b")
        calls["show"]("c", file=out)
        return x * 2

    for _ in range(4):
        yield f(X), out.getvalue()


def _warnings(compile):
    @compile
    def f(x):
        warnings.warn("look here", stacklevel=1)
        return x * 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            yield f(X), [str(w.message) for w in caught].count("look here")


def _threads(compile):
    f = compile(lambda x: x * len(threading.current_thread().name))
    yield f(X)
    for name in ("a", "bcd"):
        found = []
        thread = threading.Thread(target=lambda found=found: found.append(f(X)), name=name)
        thread.start()
        thread.join()
        yield found


def _containers_of_the_library(compile):
    table, items, chain = collections.UserDict(a=1), collections.UserList([1, 2]), collections.ChainMap({}, {"a": 1})
    f = compile(lambda x: x * table["a"] + items[-1] + chain["a"])
    yield f(X)
    table["a"] = 4
    yield f(X)
    items.append(6)
    yield f(X)
    chain["a"] = 9
    yield f(X)


@pytest.mark.parametrize(
    "program",
    [
        _context_variable, _library_object, _inherited_from_a_library, _views_of_containers, _bases, _patterns,
        _getters, _logger, _effects_under_other_names, _warnings, _threads, _containers_of_the_library,
    ],
)  # fmt: skip
def test_what_changes_is_seen(program):
    agree(program)


def test_files_that_come_and_change(tmp_path):
    def program(compile):
        for name in os.listdir(tmp_path):
            (tmp_path / name).unlink()
        yield from _files(compile, str(tmp_path))

    agree(program)


def test_a_bound_method_of_a_container_is_explained():
    table = {"k": 2.0}
    get = table.get
    f = jg.compile(lambda x: x * get("k"))
    f(X)
    table["k"] = 3.0
    assert f(X).tolist() == [3.0, 6.0, 9.0]
    assert "3.0" in str(f.explain())
