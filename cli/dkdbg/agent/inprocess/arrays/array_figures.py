"""What is said of a tensor or an array in one line: its shape, its figures, and what stands in their way. No I/O.

The figures are of all elements, or of pieces at even distances where there are more than MOST: the same pieces in each
process, so that ranks can be compared. The frameworks read the pieces (torch_views, numpy_views, jax_views).
"""

from __future__ import annotations

import math
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, List, Optional, Sequence, Tuple

#: Elements that are read at a time: below what PyTorch hands to threads (at::internal::GRAIN_SIZE), because the threads
#: of a forked process are gone and would be waited for.
PIECE = 1 << 15
#: Elements that are all read; of more, as many are read in pieces.
MOST = 1 << 22
#: Elements that are shown with their values in the line, and on the page below it.
SHORT = 10
PAGE = 100
#: Seconds for one tensor, and for all that are asked for in a row: a frame may have hundreds.
LIMIT = 0.2
ROW_LIMIT = 0.5
#: Seconds without a question after which a new row begins.
ROW_GAP = 0.25
#: Characters of a text that comes from the program.
LONGEST = 200
#: Elements of a picture's side, and bars of a histogram.
SIDE, BARS = 96, 64


class Figures:
    """The figures of the elements that were read.

    Attributes:
        count: elements that there are. read: of them, how many were read.
        nan, inf: how many of these are not numbers, or infinite. finite: the others.
        low, high, total, squares: of the finite ones.
        signed: whether NaN and Inf exist in this type.
    """

    def __init__(self, count: int, signed: bool = True) -> None:
        self.count = count
        self.signed = signed
        self.read = self.nan = self.inf = self.finite = 0
        self.low = self.high = self.total = self.squares = 0.0

    def add(self, read: int, nan: int, inf: int, finite: Sequence[float]) -> None:
        """Add a piece: of its finite elements the lowest, the highest, the sum and the sum of the squares."""
        count = read - nan - inf
        if count:
            low, high, total, squares = finite
            self.low = low if not self.finite else min(self.low, low)
            self.high = high if not self.finite else max(self.high, high)
            self.total += total
            self.squares += squares
        self.read += read
        self.nan += nan
        self.inf += inf
        self.finite += count

    @property
    def mean(self) -> float:
        """The mean of the finite elements."""
        return self.total / self.finite if self.finite else math.nan

    @property
    def norm(self) -> float:
        """The Euclidean norm of the finite elements that were read."""
        return math.sqrt(self.squares) if self.squares >= 0 else math.nan

    def pairs(self) -> List[Tuple[str, object]]:
        """Return names and numbers, for the page below the line."""
        found: List[Tuple[str, object]] = []
        if self.finite:
            low, high = (self.low, self.high) if self.signed else (int(self.low), int(self.high))
            found += [("min", low), ("max", high), ("mean", self.mean)]
        if self.signed:
            found += [("NaN", self.nan), ("Inf", self.inf)]
        if self.read < self.count:
            found.append(("sampled", "%d of %d elements" % (self.read, self.count)))
        return found

    def text(self) -> str:
        """Return them in words."""
        words = []
        if self.finite:
            words.append("min %s max %s mean %s" % (number(self.low), number(self.high), number(self.mean)))
        if self.signed:
            words.append("%d NaN %d Inf" % (self.nan, self.inf))
        if self.read < self.count:
            words.append("of %s sampled elements" % thousands(self.read))
        return ", ".join(words)


class View:
    """What is known of one tensor or array.

    Attributes:
        kind: name of its type. shape: as Python writes it. dtype, device: names; the device may be empty.
        notes: what else is worth a word. why: why there are no figures.
        figures: None where nothing was read.
        values: the elements as text, where there are few.
        digest: of the elements that were read, where it was asked for.
        grid: returns the width and the numbers of a picture of SIDE by SIDE elements at most, row by row.
        rows: returns the children, (name, value, how the value is written after the name of the whole).
    """

    def __init__(self, kind: str, shape: str, dtype: str, device: str = "") -> None:
        self.kind, self.shape, self.dtype, self.device = kind, shape, dtype, device
        self.notes: List[str] = []
        self.why = ""
        self.figures: Optional[Figures] = None
        self.values = ""
        self.digest = ""
        self.grid: Optional[Callable[[], Tuple[int, List[float]]]] = None
        self.rows: Optional[Callable[[], List[Tuple[str, object, str]]]] = None

    def text(self) -> str:
        """Return the line."""
        words = ["%s%s %s" % (self.kind, self.shape, self.dtype) + (" " + self.device if self.device else "")]
        figures = self.figures
        if self.values:
            words.append(self.values)
        if figures is not None and figures.count != 1:
            words.append(figures.text())
        elif self.why:
            words.append("not read: " + self.why)
        return ", ".join(word for word in words + self.notes if word)[: LONGEST * 4]


class Rows:
    """How much time is left for the tensors that are asked for in a row.

    Args:
        clock: seconds, only forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = -math.inf
        self._spent = 0.0

    def begin(self) -> float:
        """Return when the next one has to be done, on the clock."""
        now = self._clock()
        if now > self._last + ROW_GAP:
            self._spent = 0.0
        self._last = now
        return now + max(0.0, min(LIMIT, ROW_LIMIT - self._spent))

    def end(self) -> None:
        """Note the time that it took."""
        now = self._clock()
        self._spent += now - self._last
        self._last = now


def pieces(count: int, piece: int = PIECE, most: int = MOST) -> Iterator[Tuple[int, int]]:
    """Yield from where to where elements are read, of so many."""
    if count <= most:
        for start in range(0, count, piece):
            yield start, min(count, start + piece)
        return
    number_of = most // piece
    for position in range(number_of):
        start = position * (count - piece) // (number_of - 1)
        yield start, start + piece


def strides(shape: Sequence[int], most: int = MOST) -> Tuple[int, ...]:
    """Return each how manieth element of a dimension is read, so that at most about `most` are."""
    steps = [1] * len(shape)
    sizes = list(shape)
    while _product(sizes) > most:
        longest = max(range(len(sizes)), key=lambda each: sizes[each])
        steps[longest] *= 2
        sizes[longest] = -(-shape[longest] // steps[longest])
    return tuple(steps)


def corners(shape: Sequence[int]) -> List[slice]:
    """Return which elements of each dimension a picture has: all other dimensions at their first element."""
    flat = len(shape) == 1
    found = [slice(0, 1)] * max(0, len(shape) - 2)
    return found + [
        slice(None, None, max(1, -(-size // (SIDE * SIDE if flat else SIDE)))) for size in shape[-2:]
    ]


def shades(numbers: Sequence[float], low: float, high: float) -> Tuple[bytes, List[int]]:
    """Return a byte from 0 to 254 for each number, 255 for what is none, and how many there are in each bar."""
    counts = [0] * BARS
    found = bytearray()
    reach = high - low
    for each in numbers:
        if not math.isfinite(each):
            found.append(255)
            continue
        part = min(1.0, max(0.0, (each - low) / reach)) if reach > 0 else 0.0
        found.append(int(part * 254))
        counts[min(BARS - 1, int(part * BARS))] += 1
    return bytes(found), counts


def number(value: object) -> str:
    """Return a number as a person reads it, in four digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e6):
        return "%d" % value
    return "%.4g" % value


def thousands(value: int) -> str:
    """Return a count, as `4.2M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return "%.3g%s" % (value / size, letter)
    return str(value)


def listed(values: Sequence[object], alone: bool = False) -> str:
    """Return a few elements as text; `alone`: it is one without a dimension."""
    words = ["%.6g" % each if isinstance(each, float) else str(each)[:40] for each in values]
    return words[0] if alone and words else "[%s]" % ", ".join(words)


def clean(text: object) -> str:
    """Return a text of the program's as one line of bounded length."""
    return " ".join(str(text)[: LONGEST * 2].split())[:LONGEST]


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for each in sizes:
        product *= each
    return product
