"""Describes a tensor or an array in one line: shape, and figures such as minimum, maximum and NaN count. No I/O.

The figures cover all elements, or evenly spaced pieces if there are more than MAX_ELEMENTS. The pieces are the
same in each process, so that ranks can be compared. torch_views, numpy_views and jax_views read the elements.
"""

from __future__ import annotations

import math

from .. import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator, List, Optional, Sequence, Tuple

#: Elements to read at a time: at most at::internal::GRAIN_SIZE, above which PyTorch uses its thread pool. A
#: forked process does not have those threads, and would wait for them without end.
PIECE_ELEMENTS = 1 << 15
#: Maximum elements to read of one array; of a larger one, evenly spaced pieces are read.
MAX_ELEMENTS = 1 << 22
#: Maximum elements whose values are shown in the one-line text, and as children when a user expands it.
MAX_INLINE_ELEMENTS = 10
MAX_PAGE_ELEMENTS = 100
#: Maximum seconds to read one tensor, and to read all tensors of a burst of requests: a frame may have hundreds.
TIMEOUT_S = 0.2
ROW_TIMEOUT_S = 0.5
#: Seconds without a request after which a new burst begins.
ROW_GAP_S = 0.25
#: Maximum characters of a text from the program.
MAX_TEXT_CHARS = 200
#: Elements per side of a picture, and bars of a histogram.
SIDE, BARS = 96, 64


class Figures:
    """Statistics of the elements that were read.

    Attributes:
        count: number of all elements. read: number of elements that were read.
        nan, inf: number of NaN and infinite elements among these. finite: number of all others.
        low, high, total, squares: minimum, maximum, sum and sum of squares of the finite ones.
        signed: whether the type has NaN and Inf, as floating-point types do.
    """

    def __init__(self, count: int, signed: bool = True) -> None:
        self.count = count
        self.signed = signed
        self.read = self.nan = self.inf = self.finite = 0
        self.low = self.high = self.total = self.squares = 0.0

    def add(self, read: int, nan: int, inf: int, finite: Sequence[float]) -> None:
        """Add a piece; `finite` has minimum, maximum, sum and sum of squares of its finite elements."""
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
        """Return the mean of the finite elements that were read; NaN without any."""
        return self.total / self.finite if self.finite else math.nan

    @property
    def norm(self) -> float:
        """Return the Euclidean norm of the finite elements that were read."""
        return math.sqrt(self.squares) if self.squares >= 0 else math.nan

    def pairs(self) -> List[Tuple[str, object]]:
        """Return names and numbers, to show as children of the value."""
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
        """Return the figures as text."""
        parts = []
        if self.finite:
            parts.append("min %s max %s mean %s" % (number(self.low), number(self.high), number(self.mean)))
        if self.signed:
            parts.append("%d NaN %d Inf" % (self.nan, self.inf))
        if self.read < self.count:
            parts.append("of %s sampled elements" % thousands(self.read))
        return ", ".join(parts)


class View:
    """Description of one tensor or array.

    Attributes:
        kind: name of its type. shape: as text. dtype, device: names; the device may be empty.
        notes: further remarks. why: reason for missing figures.
        figures: None if nothing was read.
        values: the elements as text if there are few, else empty.
        digest: digest of the elements that were read, if requested.
        grid: returns the width and the numbers of a picture of at most SIDE by SIDE elements, row by row.
        rows: returns the children for an editor: (name, value, suffix that makes the parent's expression the child's).
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
        """Return the description of the value in one line."""
        parts = ["%s%s %s" % (self.kind, self.shape, self.dtype) + (" " + self.device if self.device else "")]
        figures = self.figures
        if self.values:
            parts.append(self.values)
        if figures is not None and figures.count != 1:
            parts.append(figures.text())
        elif self.why:
            parts.append("not read: " + self.why)
        return ", ".join(word for word in parts + self.notes if word)[: MAX_TEXT_CHARS * 4]


class Rows:
    """Time budget for a burst of requests for tensors; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = session.monotonic) -> None:
        self._clock = clock
        self._last = -math.inf
        self._spent = 0.0

    def begin(self) -> float:
        """Return the time on the clock at which to stop reading the next tensor."""
        now = self._clock()
        if now > self._last + ROW_GAP_S:
            self._spent = 0.0
        self._last = now
        return now + max(0.0, min(TIMEOUT_S, ROW_TIMEOUT_S - self._spent))

    def end(self) -> None:
        """Subtract the time that the tensor took from the budget."""
        now = self._clock()
        self._spent += now - self._last
        self._last = now


def pieces(
    count: int, piece: int = PIECE_ELEMENTS, max_elements: int = MAX_ELEMENTS
) -> Iterator[Tuple[int, int]]:
    """Yield the spans (start, end) of elements to read out of `count`: all, or evenly spaced ones."""
    if count <= max_elements:
        for start in range(0, count, piece):
            yield start, min(count, start + piece)
        return
    number_of = max_elements // piece
    for position in range(number_of):
        start = position * (count - piece) // (number_of - 1)
        yield start, start + piece


def strides(shape: Sequence[int], max_elements: int = MAX_ELEMENTS) -> Tuple[int, ...]:
    """Return a step for each dimension, with which at most `max_elements` elements are read."""
    steps = [1] * len(shape)
    sizes = list(shape)
    while math.prod(sizes) > max_elements:
        longest = max(range(len(sizes)), key=lambda each: sizes[each])
        steps[longest] *= 2
        sizes[longest] = -(-shape[longest] // steps[longest])
    return tuple(steps)


def corners(shape: Sequence[int]) -> List[slice]:
    """Return a slice for each dimension, which together select a picture of at most SIDE by SIDE elements.

    Only the last two dimensions are sliced; every other one keeps its first index alone.
    """
    flat = len(shape) == 1
    found = [slice(0, 1)] * max(0, len(shape) - 2)
    return found + [
        slice(None, None, max(1, -(-size // (SIDE * SIDE if flat else SIDE)))) for size in shape[-2:]
    ]


def shades(numbers: Sequence[float], low: float, high: float) -> Tuple[bytes, List[int]]:
    """Return a byte for each number, and the counts of the histogram's bars.

    A byte is 0 (`low`) to 254 (`high`), or 255 for NaN and Inf.
    """
    counts = [0] * BARS
    found = bytearray()
    span = high - low
    for each in numbers:
        if not math.isfinite(each):
            found.append(255)
            continue
        part = min(1.0, max(0.0, (each - low) / span)) if span > 0 else 0.0
        found.append(int(part * 254))
        counts[min(BARS - 1, int(part * BARS))] += 1
    return bytes(found), counts


def numbered(items: Iterable[object]) -> List[Tuple[str, object, str]]:
    """Return elements along the first dimension in the format of View.rows."""
    found = list(items)
    width = len(str(len(found) - 1))
    return [("[%0*d]" % (width, at), each, "[%d]" % at) for at, each in enumerate(found)]


def number(value: object) -> str:
    """Format a number; fractions get four significant digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e6):
        return "%d" % value
    return "%.4g" % value


def thousands(value: int) -> str:
    """Format a count, such as `4.2M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return "%.3g%s" % (value / size, letter)
    return str(value)


def listed(values: Sequence[object], alone: bool = False) -> str:
    """Format a few elements as a list; with `alone`, only the first one, without brackets, for a scalar."""
    texts = ["%.6g" % each if isinstance(each, float) else str(each)[:40] for each in values]
    return texts[0] if alone and texts else "[%s]" % ", ".join(texts)


def clean(text: object) -> str:
    """Return a text from the program as one line of bounded length."""
    return " ".join(str(text)[: MAX_TEXT_CHARS * 2].split())[:MAX_TEXT_CHARS]
