"""Reads PyTorch's tensors for array_views, without importing PyTorch.

It reads only plain strided tensors on the CPU and on CUDA devices, bypassing autograd, modes and overrides of
subclasses. It describes other tensors from their metadata, and all tensors while PyTorch traces, captures a CUDA graph
or transforms: an operation would become part of the trace, invalidate the capture, or run a subclass's code.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import sys
import time
from types import MemberDescriptorType

from .. import session
from . import array_figures
from .array_figures import MAX_ELEMENTS, MAX_INLINE_ELEMENTS, MAX_PAGE_ELEMENTS, Figures, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, List, Tuple

#: Elements to read at a time on a device: many, so that few kernels run; 16 MiB of float32.
DEVICE_PIECE_ELEMENTS = 1 << 22
#: Maximum elements to read of one tensor on a device; larger tensors are sampled.
MAX_DEVICE_ELEMENTS = 1 << 24
#: Maximum seconds to wait for the work that a device has to do before.
BUSY_TIMEOUT_S = 0.05
#: Maximum elements to copy from a device for a digest.
MAX_DIGEST_ELEMENTS = 1 << 18
_DISPATCH = "__torch_dispatch__"
#: CU_STREAM_CAPTURE_MODE_RELAXED.
_RELAXED = 2


def view_of(value: Any, deadline: float, digest: bool) -> View:
    """Describe a tensor; see array_figures.View.

    Args:
        deadline: when to stop reading, on the monotonic clock. digest: whether to add a digest.
    """
    torch = sys.modules["torch"]
    base = _base(torch)
    with _quiet(torch, value):
        view = View(
            type(value).__name__,
            _shape(torch, base, value),
            str(base.dtype.__get__(value)).replace("torch.", ""),
            str(base.device.__get__(value)),
        )
        view.notes = _notes(base, value)
        view.why = _why_not(torch, base, value)
        if view.why:
            view.notes += _local_part(torch, value, deadline)
            return view
        plain = value.detach() if type(value) is torch.Tensor else value.as_subclass(torch.Tensor).detach()
        try:
            view.why = "" if plain.device.type == "cpu" else _busy(torch, plain, deadline)
            if view.why:
                return view
            _read(torch, view, plain, deadline, digest)
        except RuntimeError as error:  # the dtype lacks an operation, or the device failed or has no memory
            view.figures, view.why = None, array_figures.clean(str(error).partition("\n")[0])
            return view
        if plain.numel() <= MAX_INLINE_ELEMENTS:
            view.values = array_figures.listed(plain.reshape(-1).tolist(), not plain.dim())
    view.rows, view.grid = lambda: _rows(torch, plain), lambda: _grid(torch, plain)
    return view


@contextlib.contextmanager
def _quiet(torch: Any, value: Any) -> Iterator[None]:
    """Context for operations without autograd and overrides, and without invalidating another thread's CUDA graph."""
    with torch._C.DisableTorchFunction(), torch.no_grad():  # no_grad itself calls a function mode
        if _base(torch).device.__get__(value).type != "cuda" or not torch.cuda.is_initialized():
            yield
            return
        former = _exchange_capture_mode(_RELAXED)
        try:
            yield
        finally:
            _exchange_capture_mode(former)


def _base(torch: Any) -> Any:
    """Return the base class of all tensors: its descriptors bypass what a subclass overrides."""
    return torch._C.TensorBase if hasattr(torch._C, "TensorBase") else torch._C._TensorBase


def _exchange_capture_mode(mode: int) -> int:
    """Set this thread's CUDA graph capture mode, and return the former one.

    In CUDA's default mode, an allocation or a query in this thread invalidates a graph that another thread is capturing
    (cuThreadExchangeStreamCaptureMode in the driver API).
    """
    import ctypes

    value = ctypes.c_int(mode)
    try:
        ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(value))
    except (OSError, AttributeError):  # ROCm
        return mode
    return value.value


def _shape(torch: Any, base: Any, value: Any) -> str:
    """Return the shape as text; `(?)` for a nested tensor, which has none, and in a trace, which would record it."""
    if _asked(torch._C, "_get_tracing_state") is not None:
        return "(?)"
    try:
        return str(tuple(base.shape.__get__(value)))
    except RuntimeError:
        return "(?)"


def _notes(base: Any, value: Any) -> List[str]:
    made_by = base.grad_fn.__get__(value)
    if made_by is not None:
        return ["grad_fn " + array_figures.clean(type(made_by).__name__)]
    return ["requires grad"] if base.requires_grad.__get__(value) else []


def _why_not(torch: Any, base: Any, value: Any) -> str:
    """Return why the tensor must not be read; empty if it may."""
    core = torch._C
    if getattr(type(value), _DISPATCH, None) is not getattr(torch.Tensor, _DISPATCH, None):
        return "a %s defines its own operations" % array_figures.clean(type(value).__name__)
    if base.layout.__get__(value) is not torch.strided:
        return "its layout is %s" % base.layout.__get__(value)
    for name, reason in (
        ("is_meta", "it has no data"),
        ("is_quantized", "it is quantized"),
        ("is_nested", "it is nested"),
    ):
        found = getattr(base, name, None)
        if found is not None and found.__get__(value):
            return reason
    device = base.device.__get__(value).type
    if device not in ("cpu", "cuda"):
        return "it is on %s" % device
    if _asked(core, "_get_tracing_state") is not None:
        return "PyTorch is tracing"
    if _asked(core, "_len_torch_dispatch_stack"):
        return "a dispatch mode is active"
    functorch = getattr(core, "_functorch", None)
    if _asked(functorch, "peek_interpreter_stack") is not None or _asked(
        functorch, "is_functorch_wrapped_tensor", value
    ):
        return "a torch.func transform is active"
    if getattr(torch, "_is_functional_tensor", bool)(value):
        return "PyTorch is tracing"
    return _without_data(value)


def _asked(module: Any, name: str, *arguments: Any) -> Any:
    """Call a function of PyTorch's internals; return None in an older PyTorch that lacks it."""
    function = getattr(module, name, None)
    return None if function is None else function(*arguments)


def _without_data(value: Any) -> str:
    """Return why the tensor has no data, as when FSDP has freed the storage of a sharded parameter; empty if it has."""
    if not value.numel():
        return ""
    last = value.storage_offset() + sum((size - 1) * step for size, step in zip(value.shape, value.stride()))
    storage = value.untyped_storage() if hasattr(value, "untyped_storage") else value.storage()
    held = storage.nbytes()
    if held < (last + 1) * value.element_size() or not value.data_ptr():
        return "its storage has been freed (%d bytes left)" % held
    return ""


def _local_part(torch: Any, value: Any, deadline: float) -> List[str]:
    """Return a note that describes this process's part of a DTensor; empty if that cannot be read."""
    slot = getattr(type(value), "_local_tensor", None)
    part = (
        slot.__get__(value)
        if type(slot) is MemberDescriptorType
        else getattr(value, "__dict__", {}).get("_local_tensor")
    )
    if torch.Tensor not in type(part).__mro__:
        return []
    return ["here: " + view_of(part, deadline, False).text()]


def _busy(torch: Any, plain: Any, deadline: float) -> str:
    """Return why a tensor on a device must not be read now: reading is forbidden, or the device is busy; else empty."""
    cuda = torch.cuda
    if cuda._is_in_bad_fork():
        return "this process was forked after CUDA was used"
    with cuda.device(plain.device):
        if cuda.is_current_stream_capturing():
            return "a CUDA graph is being captured"
        event = cuda.Event()
        event.record()
        end = min(session.monotonic() + BUSY_TIMEOUT_S, deadline)
        while not event.query():
            if session.monotonic() > end:
                return "the device is busy"
            time.sleep(0.001)
    return ""


def _read(torch: Any, view: View, plain: Any, deadline: float, digest: bool) -> None:
    count, on_cpu = plain.numel(), plain.device.type == "cpu"
    is_float = plain.is_floating_point() or plain.is_complex()
    view.figures = found = Figures(count, is_float)
    if not count:
        return
    flat = _flat(plain, in_order=digest)
    sizes = (
        (array_figures.PIECE_ELEMENTS, MAX_ELEMENTS)
        if on_cpu
        else (DEVICE_PIECE_ELEMENTS, MAX_DEVICE_ELEMENTS)
    )
    import hashlib

    hashed = hashlib.sha256() if digest and on_cpu else None
    for start, end in array_figures.pieces(flat.numel(), *sizes):
        piece = flat[start:end]
        if hashed is not None:
            hashed.update(_bytes(piece))
        found.add(*_of_piece(torch, piece))
        if session.monotonic() > deadline:
            break
    if digest:
        view.digest = _digest(hashed, flat, found, count)


def _digest(hashed: Any, flat: Any, found: Figures, count: int) -> str:
    """Return the digest of the elements that were read; if these are not all, with their number."""
    read = found.read
    if hashed is None:
        import hashlib

        hashed, read = hashlib.sha256(), 0
        for start, end in array_figures.pieces(flat.numel(), 1 << 14, MAX_DIGEST_ELEMENTS):
            piece = flat[start:end].cpu()
            hashed.update(_bytes(piece))
            read += end - start
    return str(hashed.hexdigest()[:16]) + ("" if read == count else "~%d" % read)


def _flat(plain: Any, *, in_order: bool) -> Any:
    """Return the elements in one dimension, only a sample if this would copy more than MAX_ELEMENTS of them.

    Args:
        in_order: whether to keep the order of the indices; if not, use the order in memory if that saves a copy.
    """
    if plain.is_contiguous():
        return plain.view(-1)
    if not in_order and _is_dense(plain):
        return plain.as_strided((plain.numel(),), (1,), plain.storage_offset())
    steps = array_figures.strides(tuple(plain.shape))
    return plain[tuple(slice(None, None, step) for step in steps)].reshape(-1)


def _is_dense(plain: Any) -> bool:
    """Tell whether the elements fill a block of memory without gaps, in any order, as after `permute`."""
    expected = 1
    for step, size in sorted(zip(plain.stride(), plain.shape)):
        if size != 1:
            if step != expected:
                return False
            expected *= size
    return True


def _bytes(piece: Any) -> bytes:
    """Return the bytes of a piece on the CPU, without NumPy, which may be missing."""
    import ctypes

    piece = piece.resolve_conj().resolve_neg() if hasattr(piece, "resolve_neg") else piece
    piece = piece.contiguous()
    return ctypes.string_at(piece.data_ptr(), piece.numel() * piece.element_size())


def _of_piece(torch: Any, piece: Any) -> Tuple[int, int, int, List[float]]:
    count, nan, inf = piece.numel(), 0, 0
    if piece.is_complex():
        piece = piece.abs()
    is_float = piece.is_floating_point()
    work = piece.to(torch.float64)
    if is_float:
        nan, inf = int(torch.isnan(work).sum()), int(torch.isinf(work).sum())
        if nan or inf:
            work = work[torch.isfinite(work)]
    if not work.numel():
        return count, nan, inf, []
    figures = torch.stack([work.min(), work.max(), work.sum(), (work * work).sum()]).tolist()
    return count, nan, inf, figures


def _grid(torch: Any, plain: Any) -> Tuple[int, List[float]]:
    """Return the picture of a tensor; see array_figures.View."""
    with _quiet(torch, plain):
        part = plain[tuple(array_figures.corners(tuple(plain.shape)))]
        part = part.abs() if part.is_complex() else part
        width = part.shape[-1] if part.dim() > 1 else min(array_figures.SIDE, part.numel())
        return int(width), part.to(torch.float64).reshape(-1).tolist()


def _rows(torch: Any, plain: Any) -> List[Tuple[str, Any, str]]:
    """Return the first elements along the first dimension."""
    with _quiet(torch, plain):
        if not plain.dim():
            return [("value", plain.item(), ".item()")]
        part = plain[:MAX_PAGE_ELEMENTS]
        return array_figures.numbered(part.tolist() if plain.dim() == 1 else part.unbind(0))
