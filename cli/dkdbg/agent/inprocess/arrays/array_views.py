"""Presents tensors and arrays in an editor: Variables, Watch, hover and the Debug Console.

pydevd asks its extensions (`pydevd_extension_api`) for the text and the children of a value; ArrayViews is asked before
pydevd's own extension for NumPy. The module here that reads a framework's values is imported at the first such value;
the framework itself is never imported from here. A value that cannot be read without side effects is described from its
metadata.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found, import-untyped, misc, no-untyped-call"

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Dict, List, Optional, Tuple

    from . import array_figures

    Children = List[Tuple[str, Any, Optional[str]]]

#: Columns: module that the program must have imported, name of a type in it, and module here that reads such values.
_KNOWN = (
    ("torch", "Tensor", "torch_views"),
    ("numpy", "ndarray", "numpy_views"),
    ("jax", "Array", "jax_views"),
)
#: Context of an `evaluate` request for a comparison of ranks: the answer is JSON, see described().
COMPARED = "dkdbg-compare"
_mro = type.__dict__["__mro__"].__get__
#: The array_figures.Rows of this process; empty until the first value.
_rows: List[Any] = []


def watch() -> None:
    """Register the views with pydevd."""
    from _pydevd_bundle.pydevd_extension_api import StrPresentationProvider, TypeResolveProvider
    from _pydevd_bundle.pydevd_extension_utils import extensions_of_type

    for kind in (StrPresentationProvider, TypeResolveProvider):
        extensions_of_type(kind).insert(0, ArrayViews())


class ArrayViews:
    """pydevd's StrPresentationProvider and TypeResolveProvider for tensors and arrays."""

    def can_provide(self, type_object: Any, type_name: str) -> bool:  # noqa: ARG002
        """Tell whether a type is handled here."""
        return _reader_of(type_object) is not None

    def get_str(self, val: Any) -> Optional[str]:
        """Return the line for the Variables view; None to use pydevd's own text."""
        view = _view(val)
        return None if view is None else view.text()

    def get_str_in_context(self, val: Any, context: str) -> Optional[str]:
        """Return the text for the context of an `evaluate` request; None to show the value as the program prints it.

        For the clipboard it is None, and usually for the console.
        """
        if context == "clipboard":
            return None
        if context == COMPARED:
            return described(val)
        view = _view(val)
        if view is None:
            return None
        # For a value that must not be read (on a busy GPU, in a traced function), the console shows the line too.
        return None if context == "repl" and (view.rows is not None or not view.why) else view.text()

    def get_contents_debug_adapter_protocol(self, obj: Any, fmt: Any = None) -> Children:
        """Return the children: name, value, and the suffix that makes the parent's expression the child's."""
        if type(obj) is Attributes:
            return list(_default().get_contents_debug_adapter_protocol(obj.of, fmt=fmt))
        view = _view(obj)
        if view is None:
            return list(_default().get_contents_debug_adapter_protocol(obj, fmt=fmt))
        found: Children = [("shape", _Shown(view.shape), None), ("dtype", _Shown(view.dtype), None)]
        if view.device:
            found.append(("device", _Shown(view.device), None))
        if view.figures is not None:
            found += [(name, _shown(value), None) for name, value in view.figures.pairs()]
        elif view.why:
            found.append(("not read", _Shown(view.why), None))
        try:
            found += view.rows() if view.rows is not None else []
        except Exception as error:
            found.append(("elements", _Shown("not read: %s" % type(error).__name__), None))
        found.append(("attributes", Attributes(obj), None))
        return found

    def get_dictionary(self, var: Any) -> Dict[str, Any]:
        """Return the children by name."""
        return {name: value for name, value, _ in self.get_contents_debug_adapter_protocol(var)}

    def resolve(self, var: Any, attribute: str) -> Any:
        """Return the child with this name; None if it does not exist."""
        return self.get_dictionary(var).get(attribute)


class Attributes:
    """Placeholder for pydevd's own listing of a tensor's attributes, which reads each of them: built when opened."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __repr__(self) -> str:
        return "all of the object"


class _Shown(str):
    """A string that an editor shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def described(value: Any) -> Optional[str]:
    """Return a tensor's figures for a comparison of ranks as JSON; None leaves the value to pydevd."""
    import json

    view = _view(value, digest=True)
    if view is None:
        return None
    found: Dict[str, Any] = {
        "text": view.text(),
        "shape": view.shape,
        "dtype": view.dtype,
        "digest": view.digest,
    }
    figures = view.figures
    if figures is not None:
        found.update(norm=figures.norm, mean=figures.mean, nan=figures.nan, inf=figures.inf)
        found.update(low=figures.low, high=figures.high, count=figures.count, read=figures.read)
    return json.dumps(found)


def plotted(value: Any) -> str:
    """Return a picture and a histogram of a tensor or array, as JSON of bounded size.

    Keys: `error`; or `text`, `low`, `high`, `width` (elements in a row of the picture), `rows` (the picture's elements,
    base64: a byte each, 0 for `low` to 254 for `high`, 255 for NaN and Inf) and `counts` (the histogram of these
    elements).
    """
    import base64
    import json

    view = _view(value)
    if view is None:
        return json.dumps({"error": "it is not a tensor or array"})
    figures = view.figures
    if figures is None or view.grid is None or not figures.finite:
        return json.dumps({"error": view.text()})
    from . import array_figures

    width, numbers = view.grid()
    low, high = figures.low, figures.high
    shades, counts = array_figures.shades(numbers, low, high)
    found = {"text": view.text(), "low": low, "high": high, "width": width, "counts": counts}
    return json.dumps(dict(found, rows=base64.b64encode(shades).decode("ascii")))


def _reader_of(kind: Any) -> Optional[ModuleType]:
    """Return the module that reads values of a type."""
    if kind is Attributes:
        return sys.modules[__name__]
    try:
        line = _mro(kind)
    except TypeError:
        return None
    for module, name, reader in _KNOWN:
        known = getattr(sys.modules.get(module), name, None)
        # jax.Array is not a base class of JAX's arrays: they are registered as virtual subclasses.
        if known is not None and (known in line or (module == "jax" and _is_jax(kind))):
            return importlib.import_module("." + reader, __package__)
    return None


def _is_jax(kind: Any) -> bool:
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__name__", "")
    return (
        isinstance(module, str) and module.startswith(("jaxlib.", "jax.", "jax._src")) and name == "ArrayImpl"
    )


def _view(value: Any, *, digest: bool = False) -> Optional[array_figures.View]:
    """Describe a value; return None if it is not handled here or is `numpy.ma.masked`."""
    kind = type(value)  # not `__class__`: a mock's may be a tensor
    reader = None if kind is Attributes else _reader_of(kind)
    if reader is None:
        return None
    from . import array_figures

    if not _rows:
        _rows.append(array_figures.Rows())
    deadline = _rows[0].begin()
    try:
        found: Optional[array_figures.View] = reader.view_of(value, deadline, digest)
        return found
    except Exception as error:  # for example its shape raises
        view = array_figures.View(kind.__name__, "", "")
        view.why = "%s: %s" % (type(error).__name__, array_figures.clean(error))
        return view
    finally:
        _rows[0].end()


def _shown(value: object) -> object:
    return _Shown(value) if isinstance(value, str) else value


def _default() -> Any:
    from _pydevd_bundle.pydevd_resolver import defaultResolver

    return defaultResolver
