"""Watch for changes after which another pod may match: `kubectl get --watch-only`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core.target import Changes
from dkdbg.targets.kubernetes import kubectl
from dkdbg.targets.kubernetes.kubectl_errors import explain
from dkdbg.targets.kubernetes.pod_address import OWNERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dkdbg.targets.kubernetes.pod_address import PodQuery

#: Maximum characters of kubectl's standard error to read.
_MAX_STDERR_CHARS = 4000
#: Characters of an object's name with which the name of its copy begins (`targets/kubernetes/workload.py`).
_BEGINNING = 30


class PodChanges(Changes):
    """Changes of the pods of a query; equal for equal queries."""

    def __init__(self, query: PodQuery) -> None:
        super().__init__()
        self._query = query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodChanges) and other._query == self._query

    def __hash__(self) -> int:
        return hash(self._query)

    def _open(self) -> tuple[Iterator[object], Callable[[], None]]:
        query = self._query
        which: tuple[str, ...] = ()  # the pods of a copy lack the original's labels, but begin with its name
        if query.kind not in OWNERS:
            by_name = f"--field-selector=metadata.name={query.name}"
            which = (f"--selector={query.selector}" if query.selector else by_name,)
        beginning = f"pod/{query.name[:_BEGINNING]}" if query.kind in OWNERS else ""
        words = ("get", "pods", *which, f"--namespace={query.namespace}", "--watch-only", "--output=name")
        child = process.start(
            (kubectl.program(), *words), stdout=process.PIPE, stderr=process.PIPE, new_session=True
        )

        def events() -> Iterator[object]:
            with child:
                assert child.stdout is not None  # noqa: S101 - `stdout=PIPE` above
                yield from (line for line in child.stdout if line.startswith(beginning))
                text = child.stderr.read(_MAX_STDERR_CHARS) if child.stderr is not None else ""
            if (error := explain(text, query.namespace)) is not None:
                raise error

        def end() -> None:
            child.kill()
            child.wait()

        return events(), end
