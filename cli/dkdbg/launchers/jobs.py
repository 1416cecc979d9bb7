"""Launchers of jobs, workers and tools with rules that a row of the table cannot hold."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launch, Launcher, Line, number_in
from dkdbg.launchers.shapes import QueueWorker, Spreader
from dkdbg.launchers.words import value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Accelerate(Spreader):
    """accelerate launch."""

    def launch(self, line: Line) -> Launch | None:
        """Return the script behind `launch`; `accelerate config` starts no program."""
        if line.word in ("accelerate", "accelerate.commands.accelerate_cli"):
            if line.rest[:1] != ["launch"]:
                return None
            line = Line(line.words, line.word, line.rest[1:], line.read, as_module=line.as_module)
        return super().launch(line)

    def one_process(self, rest: Sequence[str]) -> tuple[list[str], str] | None:
        """Return `rest` with one process and without `--multi_gpu`, which requires at least two."""
        words = list(rest[1:] if rest[:1] == ["launch"] else rest)
        found = super().one_process(words)
        if found is None:
            return None
        kept = [word for word in found[0] if word not in ("--multi_gpu", "--multi-gpu")]
        return [*rest[: len(rest) - len(words)], *kept], found[1]


class Lightning(Spreader):
    """Lightning; a rank that it starts has LOCAL_RANK and NODE_RANK, no RANK (plugins/environments/lightning.py)."""

    def rank_of(self, environment: dict[str, str]) -> int | None:
        """Return the local rank on the first machine; on others the number of earlier ranks is unknown."""
        node = number_in(environment, self.node_ranks)
        return number_in(environment, ("LOCAL_RANK",)) if node == 0 else None


class Ray(Launcher):
    """ray job submit, ray start."""

    def launch(self, line: Line) -> Launch | None:
        """Return the program behind `ray job submit ... --`."""
        if line.rest[:2] != ["job", "submit"] or "--" not in line.rest:
            return None
        inner = line.read.words(line.rest[line.rest.index("--") + 1 :])
        return inner.under(self.shown(line), self.name) if inner else None

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether a node stays up: `ray start --block`; a job ends."""
        return list(rest[:1]) == ["start"] and "--block" in rest


class Dask(Launcher):
    """dask worker, dask scheduler."""

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether it stays up: `dask config` ends."""
        return not rest or not rest[0].isalpha() or rest[0] in ("worker", "scheduler")


class Celery(QueueWorker):
    """celery worker, celery beat; `celery flower` is Flower."""

    def launch(self, line: Line) -> Launch | None:
        """Return the module of the app; an inspection of a running worker starts no program."""
        if "worker" in line.rest or "beat" in line.rest:
            return super().launch(line)
        return Launch(command=self.shown(line), launcher="flower") if "flower" in line.rest else None


class Joblib(Launcher):
    """The workers of loky."""

    def worker(self, argv: Sequence[str], pid: int, parent: Sequence[str] = ()) -> str:  # noqa: ARG002
        """Return `loky worker 2`: the number is in `--process-name LokyProcess-2`."""
        if not any("loky.backend.popen_loky" in word for word in argv):
            return ""
        number = (value_of(argv, ("--process-name",)) or "").rpartition("-")[2]
        return f"loky worker {number}" if number.isdigit() else f"loky worker ({pid})"


class Pytest(Launcher):
    """pytest."""

    def worker(self, argv: Sequence[str], pid: int, parent: Sequence[str] = ()) -> str:
        """Return the name of a worker: execnet's first line, below pytest."""
        below = any("pytest" in word or "py.test" in word for word in parent[:4])
        is_worker = below and any("exec(eval(sys.stdin.readline()))" in word for word in argv)
        return f"pytest-xdist worker ({pid})" if is_worker else ""


class Ros(Launcher):
    """roslaunch, rosrun, ros2."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch file or node that is a Python file."""
        file = next((word for word in line.rest if word.endswith(".py")), None)
        return self.launched(line, file, line.rest)


class ConsoleScript(Launcher):
    """A console script of the repository."""

    def launch(self, line: Line) -> Launch | None:
        """Return a launch with the script's name as the target."""
        return self.launched(line, line.word, line.rest)
