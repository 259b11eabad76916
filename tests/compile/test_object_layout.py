"""Where objects hold what they hold, and version tags of classes."""

import ctypes
import types

import pytest

from jitgrad.object_layout import (
    cell_offset,
    described_offset,
    dict_offset,
    function_offsets,
    slot_offset,
    tag_offset,
    version_tag,
)


class Slotted:
    __slots__ = ("first", "second")


def word(x, offset):
    return ctypes.c_size_t.from_address(id(x) + offset).value


def test_slots_cells_and_functions():
    holder = Slotted()
    holder.first, holder.second = object(), object()
    for name in Slotted.__slots__:
        assert word(holder, slot_offset(Slotted, name)) == id(getattr(holder, name))
    value = object()
    assert word(types.CellType(value), cell_offset()) == id(value)
    assert word(types.CellType(), cell_offset()) == 0

    def f(x=value, *, y=value):
        pass

    def bare():
        pass

    at = function_offsets()
    assert [word(f, k) for k in at[:3]] == [id(f.__code__), id(f.__defaults__), id(f.__kwdefaults__)]
    f.z = 1
    assert word(f, at[3]) == id(f.__dict__)
    assert [word(bare, k) for k in at] == [id(bare.__code__), 0, 0, 0]
    bare.x = 1
    bare.__defaults__ = None
    assert [word(bare, k) for k in at] == [id(bare.__code__), 0, 0, id(bare.__dict__)]


class Open:
    pass


def test_dicts_and_described_slots():
    for x in (Open(), types.SimpleNamespace(), type("Wide", (Slotted,), {})(), ValueError()):
        offset = dict_offset(x)
        x.name = 1
        assert word(x, offset) == id(x.__dict__)
        if not isinstance(x, types.SimpleNamespace):
            x.__dict__ = {"name": 2}
        assert word(x, offset) == id(x.__dict__)
    assert dict_offset(Slotted()) is None
    holder, value = Slotted(), object()
    assert word(holder, described_offset(Slotted.second, holder, 0)) == 0
    holder.second = value
    assert described_offset(Slotted.second, holder, 0) is None
    assert described_offset(Slotted.second, holder, id(value)) == slot_offset(Slotted, "second")


@pytest.mark.skipif(tag_offset() is None, reason="version tags of classes are not known to this Python")
def test_version_tags_tell_of_every_change():
    class Above:
        def method(self):
            pass

    class Below(Above):
        x = 1

    seen = {version_tag(Below)}
    changes = [
        lambda: setattr(Below, "x", 2), lambda: setattr(Above, "y", 1), lambda: delattr(Above, "y"),
        lambda: setattr(Above, "method", lambda self: 1), lambda: setattr(Below, "__bases__", (Slotted, Above)),
        lambda: type.__setattr__(Below, "z", 0),
    ]  # fmt: skip
    for change in changes:
        before = version_tag(Below)
        assert before == version_tag(Below) != 0
        try:
            change()
        except TypeError:  # bases of another layout
            continue
        assert version_tag(Below) != before
        assert version_tag(Below) not in seen
        seen.add(version_tag(Below))
