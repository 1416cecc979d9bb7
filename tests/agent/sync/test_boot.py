"""What is sent to the target is the whole receiver, and needs nothing else there."""

from __future__ import annotations

import ast
import pkgutil
import sys
from pathlib import Path

import pytest

import dkdbg.agent.sync
from dkdbg.agent.sync import boot


def test_every_module_of_the_package_is_sent_but_the_one_that_sends() -> None:
    package = {module.name for module in pkgutil.iter_modules(dkdbg.agent.sync.__path__)}
    assert package == {*boot.MODULES, "boot"}
    assert len(boot.MODULES) == len(set(boot.MODULES))


@pytest.mark.parametrize("name", boot.MODULES)
def test_what_is_sent_imports_nothing_but_what_is_sent_and_the_standard_library(name: str) -> None:
    source = Path(dkdbg.agent.sync.__path__[0], f"{name}.py").read_text()
    sent = {f"dkdbg.agent.sync.{module}" for module in boot.MODULES}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "dkdbg.agent.sync":
            wanted = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            wanted = [node.module or "a relative import"]
        else:
            continue
        strange = [
            one for one in wanted if one not in sent and one.split(".")[0] not in sys.stdlib_module_names
        ]
        assert strange == [], f"{name}.py:{node.lineno}"
