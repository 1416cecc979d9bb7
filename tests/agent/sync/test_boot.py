"""What is sent to the target is the whole receiver, and needs nothing else there."""

import ast
import pkgutil
import sys
from pathlib import Path

import dkdbg.sync.receiver
from dkdbg.sync.receiver import boot


def test_every_module_of_the_package_is_sent_but_the_one_that_sends():
    package = {module.name for module in pkgutil.iter_modules(dkdbg.sync.receiver.__path__)}
    assert package == {*boot.MODULES, "boot"}
    assert len(boot.MODULES) == len(set(boot.MODULES))


def test_what_is_sent_imports_nothing_but_what_is_sent_and_the_standard_library():
    sent = {f"dkdbg.sync.receiver.{module}" for module in boot.MODULES}
    for name in boot.MODULES:
        for node in ast.walk(ast.parse(Path(dkdbg.sync.receiver.__path__[0], f"{name}.py").read_text())):
            wanted = (
                [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            )
            if isinstance(node, ast.ImportFrom):
                assert node.module, f"{name}.py:{node.lineno}: a relative import"
                inside = node.module == "dkdbg.sync.receiver"
                wanted = [f"{node.module}.{each}" for each in wanted] if inside else [node.module]
            for one in wanted:
                assert one in sent or one.split(".")[0] in sys.stdlib_module_names, f"{name}.py: {one}"
