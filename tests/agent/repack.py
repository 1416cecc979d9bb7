"""The single file with something changed in it."""

import zipfile
from collections.abc import Callable
from pathlib import Path

from dkdbg.agent.inprocess import bundle
from dkdbg.delivery import single_file


def repack(source: Path, target: Path, edit: Callable[[str, bytes], bytes | None]) -> Path:
    """Write `target` as `source` with each file's content as `edit(name, content)` returns it; None leaves it out."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(source) as old, target.open("wb") as out:
        out.write(single_file.launcher())
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                content = edit(name, old.read(name))
                if content is not None:
                    bundle.add(new, name, content)
    target.chmod(0o755)
    return target
