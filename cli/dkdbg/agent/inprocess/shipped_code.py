"""Lets functions that cloudpickle ships keep the name of their file: else breakpoints miss them in the workers.

A function of the main script or a notebook travels by value (joblib, dask, submitit), and cloudpickle 3.1.3 names its
file `<dynamic-code>`.
"""

# cloudpickle is the user's.
# ruff: noqa: ANN401

from __future__ import annotations

from types import CodeType

from . import importing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMELESS = "<dynamic-code>"


def watch() -> None:
    """Keep the names as soon as the program has imported cloudpickle."""
    importing.after("cloudpickle.cloudpickle", _keep_names)


def _keep_names(module: Any) -> None:
    table = module.Pickler._dispatch_table
    true = table[CodeType]

    def reduce(code: CodeType) -> Any:
        make, values = true(code)
        return make, tuple(code.co_filename if value == _NAMELESS else value for value in values)

    table[CodeType] = reduce
