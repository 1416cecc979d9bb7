"""Classes of launchers: four common kinds, and launchers with rules that do not fit into a row of the table.

The kinds are a server of an app, a server of a script, a launcher of several processes, and a queue's worker.
"""

from __future__ import annotations

import re

from dkdbg.launchers.launcher import SERVER, WORKER, Launch, Launcher, Line, number_in
from dkdbg.launchers.words import app_module, is_dotted, is_python_file, positionals, value_of, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Jupyter subcommands that do not keep running.
_JUPYTER_ENDS = (
    "nbconvert", "execute", "run", "kernelspec", "trust", "console", "troubleshoot", "labextension", "nbextension", "migrate",
)  # fmt: skip


class AppServer(Launcher):
    """Serves `module:app`.

    Attributes:
        bare_module: whether a module alone is enough, because the name of the app has a default.
    """

    role = SERVER
    port: int | None = 8000
    bare_module = False

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the module that contains the app."""
        for _, word in positionals(line.rest, self.value_options):
            module = app_module(word)
            if module is None and self.bare_module and is_dotted(word) and not word.endswith(".py"):
                module = word
            if module is not None:
                return self.launched(line, module, line.rest, is_module=True)
        return None


class ScriptServer(Launcher):
    """Serves the app in one Python file."""

    role = SERVER

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the first Python file."""
        for place, word in positionals(line.rest, self.value_options):
            if is_python_file(word):
                return self.launched(line, word, line.rest[place + 1 :])
        return None


class Spreader(Launcher):
    """Starts a script or a module several times.

    Attributes:
        runs_commands: whether whole command lines follow its options, not only a script.
    """

    spreads = True
    runs_commands = False

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the script or module; also find it after unknown options."""
        inner = self._inner(line)
        if inner is not None and (inner.target or inner.shell_script):
            return inner.under(self.shown(line), self.shown_as(line.word))
        is_value = False
        for place, word in enumerate(line.rest):
            following = line.rest[place + 1] if place + 1 < len(line.rest) else ""
            if is_value:
                is_value = False
            elif word in ("-m", "--module") and is_dotted(following):
                args = [item for item in line.rest[place + 2 :] if item != "--"]
                found = line.read.words(["python", "-m", following, *args])
                if (
                    found is not None and found.target
                ):  # the program may be another launcher: `mpirun python -m torch...`
                    return found.under(self.shown(line), self.shown_as(line.word))
                return self.launched(line, following, args, is_module=True)
            elif is_python_file(word):
                return self.launched(line, word, line.rest[place + 1 :])
            else:
                is_value = word in self.value_options
        return None

    def _inner(self, line: Line) -> Launch | None:
        if not self.runs_commands:
            return None
        place = next((at for at, _ in positionals(line.rest, self.value_options)), len(line.rest))
        return line.read.words(line.rest[place:])


class QueueWorker(Launcher):
    """Runs the tasks of a module until it is stopped."""

    role = WORKER
    dotted_app = True

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the module of `-A`, else of the first word that can be a module."""
        app = value_of(line.rest, ("-A", "--app")) or next(
            (
                word
                for word in line.rest
                if re.fullmatch(r"[a-z_][\w.]*(?::\w+)?", word) and word not in ("worker", "run")
            ),
            "",
        )
        return self.launched(line, app.partition(":")[0] or None, line.rest, is_module=True)


class Accelerate(Spreader):
    """accelerate launch, whose `--multi_gpu` requires at least two processes."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the script after `launch`; `accelerate config` starts no program."""
        if line.word in ("accelerate", "accelerate.commands.accelerate_cli"):
            if line.rest[:1] != ["launch"]:
                return None
            line = Line(line.words, line.word, line.rest[1:], line.read, as_module=line.as_module)
        return super().launch(line)

    def one_process(self, rest: Sequence[str]) -> tuple[list[str], int, str] | None:
        """Return `rest` with one process and without `--multi_gpu`, which requires at least two."""
        start = 1 if rest[:1] == ["launch"] else 0
        ends = start + self.program_at(rest[start:])
        kept = [word for word in rest[start:ends] if word not in ("--multi_gpu", "--multi-gpu")]
        found = super().one_process([*kept, *rest[ends:]])
        if found is None:
            return None
        words, place, count = found
        return [*rest[:start], *words], start + place, count


class Lightning(Spreader):
    """Lightning. Its ranks have LOCAL_RANK and NODE_RANK, but not RANK (plugins/environments/lightning.py)."""

    def rank_of(self, environment: dict[str, str]) -> int | None:
        """Return the local rank on the first machine; None on the others: how many ranks come before is unknown."""
        node = number_in(environment, self.node_ranks)
        return number_in(environment, ("LOCAL_RANK",)) if node == 0 else None


class Ray(Launcher):
    """ray job submit, ray start."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the program after `ray job submit ... --`."""
        if line.rest[:2] != ["job", "submit"] or "--" not in line.rest:
            return None
        inner = line.read.words(line.rest[line.rest.index("--") + 1 :])
        return inner.under(self.shown(line), self.name) if inner else None

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether the words start a node that runs until it is stopped (`ray start --block`), not a job."""
        return list(rest[:1]) == ["start"] and "--block" in rest


class Dask(Launcher):
    """dask worker, dask scheduler."""

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether the words start a worker or scheduler; `dask config` ends at once."""
        return not rest or not rest[0].isalpha() or rest[0] in ("worker", "scheduler")


class Celery(QueueWorker):
    """celery worker, celery beat; `celery flower` is the launcher `flower`."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the app's module; an inspection of a running worker starts no program."""
        if "worker" in line.rest or "beat" in line.rest:
            return super().launch(line)
        return Launch(command=self.shown(line), launcher="flower") if "flower" in line.rest else None


class Joblib(Launcher):
    """The worker processes of loky, joblib's process pool."""

    def worker(self, argv: Sequence[str], pid: int, parent: Sequence[str] = ()) -> str:  # noqa: ARG002
        """Return `loky worker 2` for `--process-name LokyProcess-2`; empty for other processes."""
        if not any("loky.backend.popen_loky" in word for word in argv):
            return ""
        found = whole_number((value_of(argv, ("--process-name",)) or "").rpartition("-")[2])
        return f"loky worker ({pid})" if found is None else f"loky worker {found}"


class Pytest(Launcher):
    """pytest, and the worker processes of pytest-xdist."""

    def worker(self, argv: Sequence[str], pid: int, parent: Sequence[str] = ()) -> str:
        """Return the name of a pytest-xdist worker, which runs execnet's first line below pytest.

        Empty for other processes.
        """
        below = any("pytest" in word or "py.test" in word for word in parent[:4])
        is_worker = below and any("exec(eval(sys.stdin.readline()))" in word for word in argv)
        return f"pytest-xdist worker ({pid})" if is_worker else ""


class Ros(Launcher):
    """roslaunch, rosrun, ros2."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the Python file, a launch file or a node; without a target if the line names none."""
        file = next((word for word in line.rest if word.endswith(".py")), None)
        return self.launched(line, file, line.rest)


class ConsoleScript(Launcher):
    """A console script of the repository."""

    def launch(self, line: Line) -> Launch | None:
        """Return a launch with the script's name as the target."""
        return self.launched(line, line.word, line.rest)


class FastAPI(ScriptServer):
    """fastapi run, fastapi dev."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the file; without a target if the line names none."""
        found = super().launch(line)
        if found is None and line.rest[:1] in (["run"], ["dev"]):
            return self.launched(line, None, line.rest)
        return found


class Litestar(ScriptServer):
    """litestar run; the app is `--app module:app`, or litestar searches for it."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of `--app`'s module, else of a file, else (for `run`) one without a target."""
        module = app_module(value_of(line.rest, ("--app",)) or "")
        if module is not None:
            return self.launched(line, module, line.rest, is_module=True)
        return super().launch(line) or (self.launched(line, None, line.rest) if "run" in line.rest else None)


class Flask(Launcher):
    """flask run."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the app; without a target if the line names none."""
        if "run" not in line.rest:
            return None
        app = value_of(line.rest, ("--app", "-A"))
        return self.launched(line, app, is_module=not (app or "").endswith(".py"))


class Django(Launcher):
    """manage.py; verbs that do not begin with `run`, such as `migrate`, start no program."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of manage.py if its verb begins with `run`, or if it has no verb."""
        if not line.word.endswith("manage.py"):
            return None
        if line.rest and not line.rest[0].startswith("run"):
            return None
        return Launch(command=self.shown(line), launcher="python", target=line.word, args=line.rest)

    def port_of(self, words: Sequence[str]) -> int | None:
        """Return the port of `runserver 0.0.0.0:8000` or `runserver 8000`."""
        for word in words:
            port = whole_number(word.rpartition(":")[2], 65535)
            if port is not None and port > 999:
                return port
        return super().port_of(words)


class Gradio(Launcher):
    """gradio FILE."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the file, which is the first word."""
        if line.rest and line.rest[0].endswith(".py"):
            return self.launched(line, line.rest[0], line.rest[1:])
        return None


class Uwsgi(Launcher):
    """uwsgi, which serves a module or a file."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the module of `--module` or of the file of `--wsgi-file`."""
        module = value_of(line.rest, ("--module", "-w", "--wsgi"))
        if module:
            return self.launched(line, module.partition(":")[0], line.rest, is_module=True)
        return self.launched(line, value_of(line.rest, ("--wsgi-file", "--file")), line.rest)


class Vllm(Launcher):
    """vllm serve, and its older form as a module."""

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether the words start the server; the module has no verb."""
        return not rest or rest[0] == "serve" or rest[0].startswith("-")


class Jupyter(Launcher):
    """jupyter lab, jupyter notebook."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the notebook; without a target if the line names none."""
        if line.word == "jupyter" and line.rest[:1] not in (["lab"], ["notebook"]):
            return None
        book = next((word for word in line.rest if word.endswith(".ipynb")), None)
        return self.launched(line, book, line.rest)

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether the subcommand runs until it is stopped."""
        return not rest or rest[0] not in _JUPYTER_ENDS
