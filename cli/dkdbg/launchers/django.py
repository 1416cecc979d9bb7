"""Django: `manage.py runserver`, `django-admin runserver`."""

from __future__ import annotations

from dkdbg.launchers.launcher import SERVER, Launch, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.launchers.launcher import Line


class Django(Launcher):
    """manage.py; shown as the Python script that it is. Its other verbs prepare: `manage.py migrate`."""

    names = ("django",)
    programs = ("django-admin",)
    modules = ("django",)
    scripts = ("manage.py",)
    role = SERVER
    verbs = ("runserver", "runserver_plus", "rundaphne")
    value_options = ("--settings", "--pythonpath", "-v", "--verbosity")
    port = 8000
    child = "manage.py server process"
    child_by = "again"

    def launch(self, line: Line) -> Launch | None:
        """Return the script when it runs something, or nothing is said."""
        if not line.word.endswith("manage.py"):
            return None
        if line.rest and not line.rest[0].startswith("run"):
            return None
        return Launch(command=self.shown(line), launcher="python", target=line.word, args=line.rest)

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Tell whether the server is asked for."""
        return not rest or any(word in self.verbs for word in rest)

    def port_of(self, words: Sequence[str]) -> int | None:
        """Return the port of `runserver 0.0.0.0:8000` or `runserver 8000`."""
        for word in words:
            number = word.rpartition(":")[2]
            if number.isdigit() and 3 < len(number) < 6:
                return int(number)
        return super().port_of(words)


LAUNCHER = Django()
