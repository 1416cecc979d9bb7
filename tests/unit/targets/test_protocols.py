"""What a place can do is asked by the names of its methods (`isinstance` with a protocol): a name must mean one thing."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

from dkdbg import targets
from dkdbg.core import target as protocols


def _protocols():
    return [
        each
        for _, each in inspect.getmembers(protocols, inspect.isclass)
        if getattr(each, "_is_protocol", False) and getattr(each, "_is_runtime_protocol", False)
    ]


def _classes():
    """Return all classes of targets."""
    found: dict[str, type] = {}
    for module in pkgutil.walk_packages(targets.__path__, f"{targets.__name__}."):
        for _, each in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if each.__module__.startswith(targets.__name__) and hasattr(each, "find"):
                found[f"{each.__module__}.{each.__qualname__}"] = each
    return list(found.values())


def _methods(protocol):
    names = [name for name in dir(protocol) if not name.startswith("_")]
    return {name: getattr(protocol, name) for name in names if inspect.isfunction(getattr(protocol, name))}


def _parameters(function):
    return [(each.name, each.kind) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("protocol", _protocols(), ids=lambda each: each.__name__)
def test_who_has_the_methods_of_a_protocol_by_name_has_their_parameters(protocol):
    methods = _methods(protocol)
    for each in (known for known in _classes() if all(hasattr(known, name) for name in methods)):
        for name, function in methods.items():
            own = getattr(each, name)
            if inspect.isfunction(own):
                assert _parameters(own) == _parameters(function), f"{each.__qualname__}.{name}"


def test_there_are_targets_and_protocols_to_compare():
    assert len(_protocols()) > 10
    assert len(_classes()) > 5
