"""A real Kubernetes of one node: API server, scheduler, controllers and kubelet of 1.20 in one container (`node.sh`).

`.ci/kubernetes` builds it once. Nothing of it runs on this machine itself but processes in that container, and no setting
of the machine's kernel is changed.
"""

import json
import os
import secrets
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.engine.attach_proxies import docker
from tests.engine.projects import command
from tests.leftovers import unique

HERE = Path(__file__).parent
NODE_IMAGE, POD_IMAGE = "dkdbg-test/kubernetes:1.20", "dkdbg-test/torch:cpu"
#: What a developer needs in a namespace; the verbs by resource.
RIGHTS = {"pods": ("get", "list", "watch"), "pods/exec": ("create",)}
#: A container as OpenShift's restricted-v2 admits it, with a root file system that cannot be written.
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
RESTRICTED_POD = {
    "runAsUser": 1000660000, "runAsGroup": 0, "fsGroup": 1000660000, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip


def lacks() -> str:
    """Why the tests with a real cluster do not run, in one line; empty when they shall and all is there.

    They run when asked for, and not because an image lies about: beside the other tests the cluster, with its own engine
    in it, takes so much of two cores that others run into their limits.
    """
    if not os.environ.get("DKDBG_TEST_REAL"):
        return "a real Kubernetes: .ci/kubernetes --test builds it once and runs these tests"
    script = HERE.parents[2] / ".ci" / "kubernetes"
    done = subprocess.run([str(script), "--check"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stdout or done.stderr).strip().splitlines()[-1]


def cache() -> Path:
    """Where `.ci/kubernetes` keeps what it has built."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("DKDBG_TEST_KUBERNETES") or base / "dkdbg-tests" / "kubernetes")


class RealCluster:
    """A running cluster.

    Args:
        folder: an empty one for its kubeconfigs; whoever may read it may do everything in the cluster.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = unique("dkdbg-test-kubernetes")
        self.config = folder / "kubeconfig"

    def start(self) -> "RealCluster":
        """Return when pods can be made in the namespace `ml`."""
        subprocess.run(
            ["docker", "run", "-d", "--privileged", "--name", self.name, "--hostname", "node",
             "--volume", "/var/lib/docker", "--volume", f"{HERE / 'node.sh'}:/node.sh:ro",
             "--volume", f"{cache() / 'images'}:/images:ro", "--volume", f"{self.folder}:/out",
             "--env", f"PAUSE_FROM={POD_IMAGE}", NODE_IMAGE, "bash", "/node.sh"],
            check=True, capture_output=True,
        )  # fmt: skip
        self.wait((self.folder / "up").exists, "the kubelet")
        self.wait(lambda: " Ready" in self.kubectl("get", "nodes", check=False), "the node")
        self.kubectl("create", "namespace", "ml")
        self.wait(
            lambda: bool(self.kubectl("get", "serviceaccount", "default", check=False)), "its controllers"
        )
        return self

    def stop(self) -> None:
        docker("rm", "-f", "-v", self.name, check=False)

    def kubectl(
        self, *words: str, stdin: str | None = None, check: bool = True, config: Path | None = None
    ) -> str:
        """What kubectl prints, as the administrator unless `config` says otherwise, in `ml`."""
        done = command(
            ["kubectl", "--namespace=ml", *words],
            env={"KUBECONFIG": str(config or self.config)},
            text=stdin,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def apply(self, *documents: dict[str, Any]) -> None:
        self.kubectl(
            "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        )

    def document(self, *what: str) -> Any:
        return json.loads(self.kubectl("get", *what, "--output=json"))

    def running(self, name: str) -> None:
        words = ("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=100s")
        if "condition met" not in self.kubectl(*words, check=False):
            raise AssertionError(self.kubectl("describe", "pod", name))

    def delete(self, what: str) -> None:
        """Take an object away, at once: this kubelet takes most of a minute to say that a pod has ended."""
        self.kubectl("delete", what, "--grace-period=0", "--force", "--wait=false", "--ignore-not-found")

    def developer(
        self, *, without: tuple[str, str] = ("", ""), more: dict[str, tuple[str, ...]] | None = None
    ) -> Path:
        """The kubeconfig of a service account with nothing but RIGHTS in `ml`.

        Args:
            without: a verb and a resource that it may not.
            more: verbs by resource that it may besides; an API group stands after a dot.
        """
        name = f"dev-{secrets.token_hex(3)}"
        rules = []
        for resource, verbs in {**RIGHTS, **(more or {})}.items():
            plural, _, group = resource.partition(".")
            allowed = [verb for verb in verbs if (verb, resource) != without]
            rules.append({"apiGroups": [group], "resources": [plural], "verbs": allowed})
        about = {"name": name, "namespace": "ml"}
        self.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": about,
             "rules": [rule for rule in rules if rule["verbs"]]},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": about,
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "ml"}]},
        )  # fmt: skip
        self.wait(
            lambda: bool(self.document("serviceaccount", name).get("secrets")), "the token of an account"
        )
        secret = self.document("serviceaccount", name)["secrets"][0]["name"]
        token = self.kubectl("get", "secret", secret, "--template={{.data.token | base64decode}}")
        settings = json.loads(self.kubectl("config", "view", "--raw", "--output=json"))
        settings["users"] = [{"name": name, "user": {"token": token}}]
        settings["contexts"] = [{"name": "real", "context": {"cluster": "real", "user": name}}]
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(json.dumps(settings))
        return path

    def wait(self, what: Any, called: str) -> None:
        end = time.monotonic() + 300
        while not what():
            state = docker("inspect", "-f", "{{.State.Running}}", self.name, check=False)
            if time.monotonic() > end or state != "true":
                logs = docker("exec", self.name, "sh", "-c", "tail -n 5 /k/log/*", check=False)
                said = command(["docker", "logs", self.name], check=False)
                raise AssertionError(f"{called} did not come up\n{said.stdout}{said.stderr}\n{logs}")
            time.sleep(0.3)


def pod(
    name: str, *command: str, labels: dict[str, str] | None = None, restricted: bool = False, **container: Any
) -> dict[str, Any]:
    """The manifest of a pod of one container, `main`."""
    main = {
        "name": "main", "image": POD_IMAGE, "imagePullPolicy": "Never", "workingDir": "/workspace",
        "command": list(command or ("sleep", "infinity")), **container,
    }  # fmt: skip
    spec: dict[str, Any] = {"containers": [main], "terminationGracePeriodSeconds": 1}
    if restricted:
        main["securityContext"] = RESTRICTED
        spec["securityContext"] = RESTRICTED_POD
        spec["volumes"] = [{"name": "work", "emptyDir": {}}]
        main["volumeMounts"] = [{"name": "work", "mountPath": "/workspace"}]
    about = {"name": name, "namespace": "ml", "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}
