"""Reads JAX's arrays for array_views, without importing JAX or compiling anything."""

# ruff: noqa: ANN401

from __future__ import annotations

import sys
import time

from .. import session
from . import array_figures, numpy_views
from .array_figures import MAX_INLINE_ELEMENTS, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Maximum bytes of an array on another device than the CPU: it is copied as a whole, as a part would need a new kernel.
MAX_COPIED_BYTES = 1 << 20
#: Seconds to wait for a result that is still being computed.
READY_TIMEOUT_S = 0.05


def view_of(value: Any, deadline: float, digest: bool) -> View:
    """Describe an array; see array_figures.View.

    Args:
        deadline: when to stop reading, on the monotonic clock. digest: whether to add a digest.
    """
    aval = value.aval
    view = View("Array", str(tuple(aval.shape)), array_figures.clean(aval.dtype))
    view.why = _why_not(value)
    if view.why:
        return view
    view.device = _devices(value)
    numpy = sys.modules["numpy"]
    plain = numpy.asarray(value)
    flat = None
    if plain.dtype.kind in "biufc":
        flat = numpy_views._flat(plain, in_order=digest)
        numpy_views.figures(view, flat, int(plain.size), deadline, digest)
    elif plain.dtype.itemsize <= 2:  # ml_dtypes: bfloat16 and smaller ones
        flat = plain.reshape(-1)[: array_figures.MAX_ELEMENTS].astype(numpy.float32)
        numpy_views.figures(view, flat, int(plain.size), deadline, digest)
    if plain.size <= MAX_INLINE_ELEMENTS and flat is not None:
        view.values = array_figures.listed(flat.tolist(), not plain.ndim)
    view.rows, view.grid = lambda: numpy_views.rows(plain), lambda: numpy_views.grid(plain)
    return view


def _devices(value: Any) -> str:
    found = sorted(str(each) for each in value.devices())
    return array_figures.clean(found[0] if len(found) == 1 else "%d devices" % len(found))


def _why_not(value: Any) -> str:
    if not hasattr(value, "is_ready"):
        return "a %s holds no numbers" % type(value).__name__
    if value.is_deleted():
        return "it was deleted or donated"
    if not value.is_fully_addressable:
        return "some of its shards are in other processes"
    end = session.monotonic() + READY_TIMEOUT_S
    while not value.is_ready():
        if session.monotonic() > end:
            return "it is still being computed"
        time.sleep(0.001)
    platforms = {each.platform for each in value.devices()}
    if platforms != {"cpu"} and value.nbytes > MAX_COPIED_BYTES:
        return "its %s bytes on a device are too many to copy" % array_figures.thousands(value.nbytes)
    if len(value.devices()) > 1 and value.nbytes > MAX_COPIED_BYTES:
        return "it is spread over %d devices" % len(value.devices())
    return ""
