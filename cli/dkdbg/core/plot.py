"""Check an agent's description of a tensor, and draw it as a PNG: a picture beside its histogram. Pure."""

from __future__ import annotations

import ast
import base64
import json
import math
import struct
import zlib
from dataclasses import dataclass

from dkdbg.errors import DkdbgError

#: Maximum elements along a picture's side, number of a histogram's bars, and pixels between and around pictures.
_SIDE, _BARS, _GAP = 96, 64, 8
#: Pixels of a picture's side: small tensors are enlarged.
_PIXELS = 192
#: Maximum ranks in one picture.
MAX_RANKS = 64
_NONE = (255, 0, 0)
_BACK, _BAR = (255, 255, 255), (70, 110, 180)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The displayed values of one tensor.

    Attributes:
        text: description of the tensor, for display.
        width: width of the picture, in elements.
        shades: elements of the picture row by row, 0 (low) to 254 (high), 255 for NaN and Inf.
        counts: bars of the histogram.
    """

    text: str
    width: int
    shades: bytes
    counts: tuple[int, ...]


def expression(of: str) -> str:
    """Return a Python expression for the program, whose value describes the tensor `of` as `read` parses it."""
    return f"__import__('_dkdbg.arrays.array_views').arrays.array_views.plotted(({of}\n))"


def read(value: str, label: str) -> Shown:
    """Parse the program's description of a tensor.

    Args:
        value: repr of the value of `expression`, a string.
        label: source of the value, for messages.

    Raises:
        DkdbgError: there is nothing to show, or the answer is invalid.
    """
    try:
        answer = json.loads(ast.literal_eval(value))
        if "error" in answer:
            raise DkdbgError(f"{label}: {str(answer['error'])[:300]}")
        low, high = float(answer["low"]), float(answer["high"])
        width, counts = int(answer["width"]), tuple(int(each) for each in answer["counts"])
        shades = base64.b64decode(answer["rows"], validate=True)
        if not 0 < width <= _SIDE or not 0 < len(shades) <= _SIDE * _SIDE or len(counts) != _BARS:
            raise ValueError("size")
        if min(counts) < 0 or not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError("numbers")
        return Shown(text=str(answer["text"])[:800], width=width, shades=shades, counts=counts)
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError) as error:
        raise DkdbgError(f"{label}: unexpected answer about the tensor") from error


def png(shown: list[Shown]) -> bytes:
    """Return the PNG (ISO/IEC 15948): one row per tensor, its picture on the left, its histogram on the right."""
    width = 2 * _PIXELS + 3 * _GAP
    height = len(shown) * (_PIXELS + _GAP) + _GAP
    canvas = [bytearray(bytes(_BACK) * width) for _ in range(height)]
    for position, each in enumerate(shown):
        top = _GAP + position * (_PIXELS + _GAP)
        _picture(canvas, each, top)
        _histogram(canvas, each, top, 2 * _GAP + _PIXELS)
    lines = b"".join(b"\0" + bytes(line) for line in canvas)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(lines, 9)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _picture(canvas: list[bytearray], shown: Shown, top: int) -> None:
    rows = -(-len(shown.shades) // shown.width)
    for y in range(_PIXELS):
        for x in range(_PIXELS):
            at = y * rows // _PIXELS * shown.width + x * shown.width // _PIXELS
            if at < len(shown.shades):
                shade = shown.shades[at]
                _dot(canvas, top + y, _GAP + x, _NONE if shade == 255 else (shade, shade, shade))


def _histogram(canvas: list[bytearray], shown: Shown, top: int, left: int) -> None:
    highest = max(shown.counts) or 1
    for x in range(_PIXELS):
        bar = _PIXELS * shown.counts[x * _BARS // _PIXELS] // highest
        for y in range(_PIXELS - bar, _PIXELS):
            _dot(canvas, top + y, left + x, _BAR)


def _dot(canvas: list[bytearray], y: int, x: int, colour: tuple[int, int, int]) -> None:
    canvas[y][3 * x : 3 * x + 3] = bytes(colour)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
