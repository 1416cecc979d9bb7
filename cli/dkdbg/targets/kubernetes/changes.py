"""Watch for changes after which another pod may match: `kubectl get --watch-only`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.targets.kubernetes import kubectl
from dkdbg.targets.kubernetes.kubectl_errors import explain
from dkdbg.targets.kubernetes.pod_address import OWNERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.targets.kubernetes.pod_address import PodQuery

#: Maximum characters of kubectl's standard error to read.
_MAX_SAID = 4000
#: Characters of an object's name with which the name of its copy begins (`targets/kubernetes/workload.py`).
_BEGINNING = 30


class PodChanges:
    """Changes of the pods of a query; equal for equal queries."""

    def __init__(self, query: PodQuery) -> None:
        self._query = query
        self._lock = threading.Lock()
        self._closed = False
        self._end: Callable[[], None] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodChanges) and other._query == self._query

    def __hash__(self) -> int:
        return hash(self._query)

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` for each change that the cluster reports; return when it reports no more, or after `close`.

        Raises:
            DkdbgError: kubectl is not installed, or the cluster does not permit watching.
        """
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

        def end() -> None:
            child.kill()

        try:
            with self._lock:
                if self._closed:
                    return
                self._end = end
            changed()  # changes until now
            assert child.stdout is not None  # noqa: S101 - `stdout=PIPE` above
            for line in child.stdout:
                if line.startswith(beginning):
                    changed()
            said = child.stderr.read(_MAX_SAID) if child.stderr is not None else ""
            error = explain(said, query.namespace)
            if error is not None:
                raise error
        finally:
            child.kill()
            child.wait()
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()

    def close(self) -> None:
        """Make `listen` return; thread-safe."""
        with self._lock:
            self._closed = True
            if self._end is not None:
                self._end()
