"""Reads NumPy's arrays for array_views, without importing NumPy."""

# ruff: noqa: ANN401

from __future__ import annotations

import sys

from .. import session
from . import array_figures
from .array_figures import MAX_INLINE_ELEMENTS, MAX_PAGE_ELEMENTS, Figures, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

#: Maximum length of an array's chain of `base`s to search for a memory-mapped file.
_MAX_BASES = 16


def view_of(value: Any, deadline: float, digest: bool) -> Optional[View]:
    """Describe an array; see array_figures.View. Return None for `numpy.ma.masked`, which has no value.

    Args:
        deadline: when to stop reading, on the monotonic clock. digest: whether to add a digest.
    """
    numpy = sys.modules["numpy"]
    if value is getattr(sys.modules.get("numpy.ma"), "masked", numpy):
        return None
    plain = numpy.ndarray.view(value, numpy.ndarray)  # bypasses the methods of a subclass
    name = "array" if type(value) is numpy.ndarray else type(value).__name__
    view = View(name, str(tuple(plain.shape)), array_figures.clean(plain.dtype))
    view.why = _why_not(numpy, value, plain)
    if view.why:  # no figures; the children still show the first elements, with their mask
        view.rows = lambda: rows(value if _is_masked(value) else plain)
        return view
    flat = _flat(plain, in_order=digest)
    if plain.dtype.kind in "biufc":
        figures(view, flat, int(plain.size), deadline, digest)
    if plain.size <= MAX_INLINE_ELEMENTS:
        view.values = array_figures.listed(plain.reshape(-1).tolist(), not plain.ndim)
    view.rows, view.grid = lambda: rows(plain), lambda: grid(plain)
    return view


def figures(view: View, flat: Any, count: int, deadline: float, digest: bool) -> None:
    """Read the elements of a one-dimensional array into the figures of a view."""
    import hashlib

    numpy = sys.modules["numpy"]
    view.figures = found = Figures(count, flat.dtype.kind in "fc")
    hashed = hashlib.sha256() if digest else None
    with numpy.errstate(all="ignore"):
        for start, end in array_figures.pieces(int(flat.size)):
            piece = flat[start:end]
            if hashed is not None:
                hashed.update(numpy.ascontiguousarray(piece).tobytes())
            found.add(*_of_piece(numpy, piece))
            if session.monotonic() > deadline:
                break
    if hashed is not None:
        view.digest = hashed.hexdigest()[:16] + ("" if found.read == count else "~%d" % found.read)


def rows(whole: Any) -> List[Tuple[str, Any, str]]:
    """Return the first elements along the first dimension as children; numbers have Python's own types."""
    if not whole.ndim:
        return [("value", whole.item(), "[()]")]
    part = whole[:MAX_PAGE_ELEMENTS]
    are_numbers = whole.ndim == 1 and whole.dtype.kind in "biufc" and not _is_masked(whole)
    return array_figures.numbered(part.tolist() if are_numbers else part)


def grid(plain: Any) -> Tuple[int, List[float]]:
    """Return the picture of an array; see array_figures.View."""
    numpy = sys.modules["numpy"]
    part = plain[tuple(array_figures.corners(plain.shape))]
    part = numpy.abs(part) if part.dtype.kind == "c" else part
    width = part.shape[-1] if part.ndim > 1 else min(array_figures.SIDE, part.size)
    return int(width), part.astype(numpy.float64).reshape(-1).tolist()


def _is_masked(value: Any) -> bool:
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and masked in type(value).__mro__


def _why_not(numpy: Any, value: Any, plain: Any) -> str:
    if _is_masked(value):
        return "some of it is masked"
    if plain.dtype.hasobject:
        return "its elements are objects"
    mapped = sys.modules.get("mmap")
    base = value
    for _ in range(_MAX_BASES):
        if type(base) is numpy.memmap or (mapped is not None and isinstance(base, mapped.mmap)):
            return "it lies in a file"
        base = getattr(base, "base", None)
        if base is None:
            break
    return ""


def _flat(plain: Any, *, in_order: bool) -> Any:
    """Return the elements in one dimension, only a sample if this would copy more than MAX_ELEMENTS of them.

    Args:
        in_order: whether to keep the order of the indices; if not, use the order in memory if that saves a copy.
    """
    if plain.flags.c_contiguous or (plain.flags.f_contiguous and not in_order):
        return plain.ravel(order="K")
    steps = array_figures.strides(plain.shape)
    return plain[tuple(slice(None, None, step) for step in steps)].ravel()


def _of_piece(numpy: Any, piece: Any) -> Tuple[int, int, int, Tuple[float, ...]]:
    if piece.dtype.kind == "c":
        piece = numpy.abs(piece)
    work = piece.astype(numpy.float64)
    nan = inf = 0
    if piece.dtype.kind == "f":
        # Test `piece`: in `work`, a finite long double beyond the range of float64 is Inf.
        nan = int(numpy.count_nonzero(numpy.isnan(piece)))
        inf = int(numpy.count_nonzero(numpy.isinf(piece)))
        if nan or inf:
            work = work[numpy.isfinite(piece)]
    if not work.size:
        return int(piece.size), nan, inf, ()
    finite = float(work.min()), float(work.max()), float(work.sum()), float((work * work).sum())
    return int(piece.size), nan, inf, finite
