"""Find the shell scripts that a service can start with without root's rights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dkdbg.setup.detect.files import Tree

_SCRIPT = re.compile(r".*\.(?:sh|bash)|.*entry-?point.*|start|run", re.IGNORECASE)
#: Commands that change the user, need root, or query the user.
_ROOTS = re.compile(
    r"\b(?:gosu|su-exec|su|setpriv|runuser|sudo|chown|chroot|useradd|usermod|adduser|addgroup|groupadd|supervisord|service"
    r"|s6-[a-z]+|chpst|start-stop-daemon|apt-get|apt|apk|mount|cron|crond|sshd|nginx|ldconfig|sysctl|id|whoami|EUID|USER)\b"
)


def harmless_scripts(tree: Tree) -> frozenset[str]:
    """Return the names of the scripts without such commands; scripts that share a name must all be free of them."""
    harmless: dict[str, bool] = {}
    for path in tree.matching(_SCRIPT):
        name, text = path.rsplit("/", 1)[-1], tree.text(path)
        lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
        is_script = text.startswith("#!") or name.endswith("sh")
        fine = is_script and not any(map(_ROOTS.search, lines))
        harmless[name] = harmless.get(name, True) and fine
    return frozenset(name for name, fine in harmless.items() if fine)
