"""Starts the receiver on a target that has only Python 3. This module's only I/O is reading this package.

`python3 -c BOOT` reads a length and that many bytes from standard input: compressed Python, the sources of
this package and a loader that makes modules of them in memory. Nothing is written to the target's disk. The bytes after
the compressed Python are the stream.
"""

from __future__ import annotations

import json
import pkgutil
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

_PACKAGE = "dkdbg.sync.receiver"

#: The receiver's modules. `boot` stays on the host.
MODULES = (
    "problems", "wire", "paths", "tree", "content", "ledger", "state", "obstacles", "placing", "transfers",
    "operations", "listing", "session", "receiver",
)  # fmt: skip

#: No user site, PYTHON* variables, site-packages or .pyc: only the standard library, for the quickest start.
_FLAGS = ("-I", "-S", "-B")

# A buffer of one byte never reads ahead: the rest belongs to the stream. This line runs under any Python since 2.7.
BOOT = "import io,zlib;f=io.BufferedReader(io.FileIO(0,closefd=False),1);exec(zlib.decompress(f.read(int(f.read(8)))))"

_LOADER = r"""
import sys

if sys.version_info < (3, 8):
    sys.stderr.write("Python %d.%d\n" % sys.version_info[:2])
    sys.exit(127)  # as a program that is missing: the host tries another one

class Loader:
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return type(sys.__spec__)(name, self, origin="<sync>/" + name, is_package=name in PACKAGES)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        code = compile(SOURCES[module.__name__], "<sync>/" + module.__name__, "exec", dont_inherit=True)
        exec(code, module.__dict__)

sys.meta_path.insert(0, Loader())
from dkdbg.sync.receiver import receiver
import os
code = receiver.main()
try:
    sys.stderr.flush()
finally:
    os._exit(code)  # freeing a large ledger object by object would delay the exit
"""


def command(python: str) -> List[str]:
    """Return the command line of the receiver; a `python` older than 3.8 prints its version and exits with 127."""
    return [python, *_FLAGS, "-c", BOOT]


def payload() -> bytes:
    """Return the first bytes for the receiver's standard input; to save time, call it while the command starts."""
    sources = _sources()
    packages = [name for name in sources if sources[name] == "" or name == _PACKAGE]
    # JSON in ASCII is a Python literal too, if it holds only strings, lists and objects.
    code = "SOURCES = %s\nPACKAGES = %s\n%s" % (json.dumps(sources), json.dumps(packages), _LOADER)
    packed = zlib.compress(code.encode("ascii"), 6)
    return b"%8d" % len(packed) + packed


def _sources() -> Dict[str, str]:
    """Return the source of each module by its dotted name; empty for packages."""
    found = {"dkdbg": "", "dkdbg.sync": "", _PACKAGE: ""}
    for name in MODULES:
        data = pkgutil.get_data(_PACKAGE, name + ".py")
        assert data is not None, name  # noqa: S101 - the package is whole
        found["%s.%s" % (_PACKAGE, name)] = data.decode("utf-8")
    return found
