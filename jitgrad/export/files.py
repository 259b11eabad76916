"""Programs on disk: one file, or a folder of a text and its weights.

    model.jg                            a text, then at a multiple of 64 bytes a safetensors section
    model/program.txt                   the text
    model/weights.safetensors           the section

Files appear whole or not at all: they are written under another name and renamed. The same program gives the same
bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from jitgrad.ir.errors import ArgumentError, ParseError

from ..errors import located
from .reader import Place, read_program
from .spec import Spec
from .weights import Section, digest_of, open_section
from .writer import program_text

TEXT: Final = "program.txt"
WEIGHTS: Final = "weights.safetensors"
MAX_TEXT: Final = 1 << 28
_ALIGNMENT: Final = 64
_MAGIC: Final = b"jitgrad program "
Arrays = Mapping[str, np.ndarray[Any, Any]]


def write_file(path: Path, spec: Spec, arrays: Arrays, locations: bool) -> None:
    """The program as one file."""
    section = Section(arrays)
    text = program_text(spec, locations=locations)
    offset = 0
    while True:  # the number of digits of the offset is part of it
        last = f'weights here {offset}, bytes {section.nbytes}, sha256 "{section.sha256}"\n'
        whole = (text + last).encode()
        end = -(-len(whole) // _ALIGNMENT) * _ALIGNMENT
        if end == offset:
            break
        offset = end
    _write(path, [whole, b"\n" * (offset - len(whole)), *section.pieces()])


def write_folder(path: Path, spec: Spec, arrays: Arrays, locations: bool) -> None:
    """The program as a folder. The text, which tells the weights' digest, comes last."""
    section = Section(arrays)
    path.mkdir(parents=True, exist_ok=True)
    _write(path / WEIGHTS, section.pieces())
    last = f'weights beside, bytes {section.nbytes}, sha256 "{section.sha256}"\n'
    _write(path / TEXT, [(program_text(spec, locations=locations) + last).encode()])


def _write(path: Path, pieces: Any) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            for piece in pieces:
                file.write(piece)
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)  # which is what the user named
        else:
            temporary.unlink(missing_ok=True)
        raise


class Opened:
    """A program read from `path`: its `spec`, its state's `arrays`, and where the weights lie."""

    def __init__(self, path: Path) -> None:
        self.path = path / TEXT if path.is_dir() else path
        try:
            self._open()
        except ParseError as error:
            error.attach_location(str(self.path))
            raise

    def _open(self) -> None:
        raw = self._text()
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise ParseError(f"line {line}: this is not UTF-8 text") from None
        self.spec, self.place = read_program(text)
        if self.place.kind == "here" and self.place.offset < len(raw):
            raise ParseError(f"weights: they can't begin at byte {self.place.offset}, within the text")
        self.arrays = self._weights()

    def _text(self) -> bytes:
        """The text: all of a file without weights, else up to the end of the line that tells where they are."""
        with open(self.path, "rb") as file:
            head = file.read(len(_MAGIC))
            if head != _MAGIC:
                raise located(ArgumentError(f"{self.path} is no jitgrad program: it doesn't begin with {_MAGIC!r}"))
            found = bytearray(head)
            while piece := file.read(1 << 20):
                start = max(0, len(found) - len(_LAST))
                found += piece
                at = found.find(_LAST, start)
                if at >= 0:
                    end = found.find(b"\n", at + 1)
                    if end >= 0:
                        return bytes(found[: end + 1])
                if len(found) > MAX_TEXT:
                    raise ParseError(f"the text is longer than {MAX_TEXT} bytes")
        return bytes(found)

    def _weights(self) -> dict[str, Any]:
        spec, place = self.spec, self.place
        types = {s.name: spec.graph.inputs[s.input].type for s in spec.state}
        if place.kind == "none":
            if types:
                raise ParseError(f"weights: there are none, and the state has {len(types)} entries")
            return {}
        path = self._weights_path()
        if not os.path.exists(path):
            raise ParseError(f"weights: there is no file {path}")
        return open_section(path, place.offset, place.nbytes, types)

    def _weights_path(self) -> str:
        return str(self.path.parent / WEIGHTS if self.place.kind == "beside" else self.path)

    def weights_are_intact(self) -> bool:
        """Whether the weights are, to the bit, those that were written."""
        place: Place = self.place
        if place.kind == "none":
            return True
        return digest_of(self._weights_path(), place.offset, place.nbytes) == place.sha256


_LAST: Final = b"\nweights "
