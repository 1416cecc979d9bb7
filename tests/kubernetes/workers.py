"""Pods of the stand-in's Deployments and Jobs, as Docker containers: what a controller and a kubelet would make of them."""

import base64
from pathlib import Path
from typing import Any

from tests.engine.projects import unique
from tests.engine.synced import docker, take_away
from tests.kubernetes.cluster import Cluster, Pod


class Workers:
    """Makes a pod of each Deployment and Job that is made in a cluster, with the ConfigMap that it mounts.

    Args:
        image: of all containers, whatever is asked for. code: a folder that is there at /workspace.
        status, log: what is said of each pod, in the place of running it, and what it has printed.
    """

    def __init__(
        self, cluster: Cluster, folder: Path, image: str, code: Path, *, status: dict[str, Any] | None = None, log: str = "",
    ) -> None:  # fmt: skip
        self._cluster, self._folder, self._image, self._code = cluster, folder, image, code
        self._status, self._log = status, log
        self._containers: dict[str, str] = {}
        cluster.objects.made, cluster.objects.gone = self._made, self._gone

    def close(self) -> None:
        for name in list(self._containers):
            self._gone("deployments", name)

    def _made(self, plural: str, value: dict[str, Any]) -> None:
        name = value["metadata"]["name"]
        if plural == "configmaps":
            folder = self._agent(name.removesuffix("-agent"))  # of the workload whose name begins it
            for file, text in value["binaryData"].items():
                (folder / "half").write_bytes(base64.b64decode(text))
                (folder / "half").rename(folder / file)
        elif plural in {"deployments", "jobs"}:
            self._start(name, value["spec"]["template"])

    def _agent(self, name: str) -> Path:
        found = self._folder / name
        found.mkdir(exist_ok=True, parents=True)
        return found

    def _start(self, name: str, template: dict[str, Any]) -> None:
        container = template["spec"]["containers"][0]
        labels = template["metadata"]["labels"]
        if self._status is not None:
            pod = Pod(
                f"{name}-0", {container["name"]: None}, labels=labels, status=self._status, log=self._log
            )
            self._cluster.put(pod)
            return
        self._containers[name] = unique("dkdbg-pod")
        words = ["--init", "--name", self._containers[name]]
        words += ["-v", f"{self._agent(name)}:/opt/dkdbg:ro", "-v", f"{self._code}:/workspace"]
        for each in container.get("env", ()):
            words += ["-e", f"{each['name']}={each['value']}"]
        # A kubelet waits for the ConfigMap, which is made after the Deployment that owns it.
        wait = 'until [ -e /opt/dkdbg/agent.pyz ]; do sleep 0.05; done; exec "$0" "$@"'
        argv = [*container.get("command", ()), *container.get("args", ())]
        docker("run", "-d", *words, "-w", "/workspace", self._image, "sh", "-c", wait, *argv)
        about = {"workingDir": "/workspace"}
        self._cluster.put(
            Pod(f"{name}-0", {container["name"]: self._containers[name]}, labels=labels, container=about)
        )

    def _gone(self, plural: str, name: str) -> None:
        if plural in {"deployments", "jobs"}:
            self._cluster.delete(f"{name}-0")
            if container := self._containers.pop(name, ""):
                take_away(container)
