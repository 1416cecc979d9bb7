"""`dkdbg init --k8s`: the overlay that it writes, as the real kustomize renders it."""

import json
import shutil

import pytest
from ruamel.yaml import YAML

from dkdbg.setup.render import jsonc
from tests.checkout import snapshot
from tests.commands import command
from tests.engine.projects import repo
from tests.needs import give_up

POD = {
    "securityContext": {"runAsNonRoot": True},
    "containers": [
        {
            "name": "main", "image": "train:1", "workingDir": "/workspace", "command": ["python", "train.py"], "args": ["--lr", "$(LR)"],
            "env": [{"name": "LR", "value": "on"}], "livenessProbe": {"exec": {"command": ["true"]}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "securityContext": {"readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        },
        {"name": "logs", "image": "logs:1"},
    ],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
}  # fmt: skip
SELECTOR = {"selector": {"app": "bert"}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bert"}, "spec": SELECTOR}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}}


@pytest.fixture(autouse=True)
def _kubectl(tmp_path, monkeypatch):
    if shutil.which("kubectl") is None:
        give_up("kubectl is not installed (.ci/kubectl installs it)")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


def workload(kind: str = "Deployment", name: str = "bert", **spec: object) -> dict:
    template = {"metadata": {"labels": {"app": name}}, "spec": POD}
    api = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "PyTorchJob": "kubeflow.org/v1"}.get(
        kind, "batch/v1"
    )
    inside: dict = {"template": template, **spec}
    if kind in {"Deployment", "StatefulSet"}:
        inside = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, **inside}
    if kind == "CronJob":
        inside = {"schedule": "0 0 * * *", "jobTemplate": {"spec": inside}}
    if kind == "PyTorchJob":
        role = {"replicas": 1, "template": template}
        inside = {"pytorchReplicaSpecs": {"Master": role, "Worker": role}}
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": inside}


def manifests(*documents: object) -> str:
    return "\n---\n".join(json.dumps(each, ensure_ascii=False) for each in documents)


def project(tmp_path, files: dict[str, str]):
    return repo(tmp_path / "shop", {"train.py": "print(1)\n", **files})


def built(root, folder: str) -> dict:
    """The workload that an overlay builds, which carries the agent and nothing else."""
    documents = YAML(typ="safe").load_all(command(["kubectl", "kustomize", folder], root).stdout)
    found = {each["kind"]: each for each in documents}
    agent = found.pop("ConfigMap")
    assert list(agent["binaryData"]) == ["agent.pyz"]
    (made,) = found.values()
    assert agent["metadata"]["labels"] == made["metadata"]["labels"]
    assert agent["metadata"]["name"] == f"{made['metadata']['name']}-agent"
    assert agent["metadata"].get("namespace") == made["metadata"].get("namespace")
    return made


def must(ran):
    assert ran.code == 0, ran.err
    return ran


def main_of(made: dict) -> dict:
    return made["spec"]["template"]["spec"]["containers"][0]


def test_a_plain_manifest_gets_an_overlay_of_its_copy_and_f5_and_undo_takes_all_of_it_back(tmp_path, dkdbg):
    root = project(tmp_path, {"k8s/bert.yaml": manifests(workload(), SERVICE, CLAIM)})
    before = snapshot(root)
    said = must(dkdbg(root, "init", "--k8s", "--yes")).out
    assert "k8s://default/deployment/bert" in said
    made = built(root, ".dkdbg/k8s/deployment-bert")
    assert (made["kind"], made["metadata"]["name"]) == ("Deployment", "bert-dkdbg")
    assert made["spec"]["replicas"] == 2
    labels = {"app.kubernetes.io/managed-by": "dkdbg", "dev.dkdbg/copy-of": "deployment.bert"}
    assert made["spec"]["selector"]["matchLabels"] == made["spec"]["template"]["metadata"]["labels"] == labels
    found = main_of(made)
    assert found["command"] == ["sh", "/opt/dkdbg/agent.pyz", "launch"]
    assert found["args"][found["args"].index("--") + 1 :] == ["python", "train.py", "--lr", "$(LR)"]
    assert found["env"][0] == {"name": "LR", "value": "on"}
    assert found["livenessProbe"]["failureThreshold"] == 1_000_000
    for key in ("image", "securityContext", "workingDir"):
        assert found[key] == POD["containers"][0][key]
    assert made["spec"]["template"]["spec"]["volumes"][0] == POD["volumes"][0]
    entry = jsonc.loads((root / ".vscode/launch.json").read_text())["configurations"][0]
    task = jsonc.loads((root / ".vscode/tasks.json").read_text())["tasks"][0]
    assert entry["pathMappings"] == [{"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"}]
    assert entry["preLaunchTask"] == task["label"]
    up = "up --on k8s://default/deployment/bert --overlay .dkdbg/k8s/deployment-bert"
    assert task["args"][:5] == up.split()
    assert must(dkdbg(root, "init", "--k8s", "--check"))
    must(dkdbg(root, "init", "--undo"))
    assert snapshot(root) == before


def test_an_overlay_follows_its_base_and_refuses_another_program(tmp_path, dkdbg):
    files = {
        "deploy/base/kustomization.yaml": "resources: [bert.yaml]\n",
        "deploy/base/bert.yaml": manifests(workload(), SERVICE, CLAIM),
        "deploy/dev/kustomization.yaml": "resources: [../base]\nnamespace: ml\nimages: [{name: train, newTag: dev}]\n",
        "deploy/prod/kustomization.yaml": "resources: [../base]\n",
    }
    root = project(tmp_path, files)
    said = must(dkdbg(root, "init", "--k8s", "bert", "--yes")).out
    assert "it builds on deploy/dev" in said
    assert "k8s://ml/deployment/bert" in said
    assert main_of(built(root, ".dkdbg/k8s/deployment-bert"))["image"] == "train:dev"
    changed = workload(replicas=5)
    changed["spec"]["template"]["metadata"]["labels"]["tier"] = "gpu"
    (root / "deploy/base/bert.yaml").write_text(manifests(changed, SERVICE))
    made = built(root, ".dkdbg/k8s/deployment-bert")
    assert made["spec"]["replicas"] == 5
    assert "tier" not in made["spec"]["template"]["metadata"]["labels"]
    (root / "deploy/base/bert.yaml").write_text(manifests(changed).replace("train.py", "other.py"))
    refused = command(["kubectl", "kustomize", ".dkdbg/k8s/deployment-bert"], root, check=False)
    assert "containers/0/command failed: test failed" in refused.stderr
    assert dkdbg(root, "init", "--k8s", "bert", "--check").code == 1
    must(dkdbg(root, "init", "--k8s", "bert", "--yes"))
    assert "other.py" in main_of(built(root, ".dkdbg/k8s/deployment-bert"))["args"]


def test_any_words_of_a_program_are_compared_and_passed_on_as_they_are(tmp_path, dkdbg):
    texts = ["a <b> & 'c' >d", "two\nlines\t", "\u00e4 \U0001f600", '"q" \\ $x', "\x07", "yes", "0x1", ""]
    made = json.loads(manifests(workload()))
    made["spec"]["template"]["spec"]["containers"][0]["command"] = texts
    files = {"k8s/kustomization.yaml": "resources: [a.yaml]\n", "k8s/a.yaml": manifests(made)}
    root = project(tmp_path, files)
    must(dkdbg(root, "init", "--k8s", "--yes"))
    words = main_of(built(root, ".dkdbg/k8s/deployment-bert"))["args"]
    assert words[words.index("--") + 1 :][: len(texts)] == texts


def test_names_that_kustomize_makes_are_those_that_the_copy_refers_to(tmp_path, dkdbg):
    pods = json.loads(manifests(workload()))
    pods["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    generated = "configMapGenerator: [{name: settings, literals: [a=b]}]\n"
    base = "resources: [bert.yaml]\nnamePrefix: team-\n" + generated
    root = project(tmp_path, {"k8s/kustomization.yaml": base, "k8s/bert.yaml": manifests(pods, CLAIM)})
    said = must(dkdbg(root, "init", "--k8s", "--yes")).out
    assert "a snapshot of the object that k8s builds" in said
    made = built(root, ".dkdbg/k8s/deployment-team-bert")
    assert made["metadata"]["name"] == "team-bert-dkdbg"
    assert made["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "team-data"
    assert main_of(made)["envFrom"][0]["configMapRef"]["name"].startswith("team-settings-")


def test_a_kustomization_at_the_root_of_the_repository_is_no_base_of_a_folder_below_it(tmp_path, dkdbg):
    files = {"kustomization.yaml": "resources: [bert.yaml]\n", "bert.yaml": manifests(workload())}
    root = project(tmp_path, files)
    must(dkdbg(root, "init", "--k8s", "--yes"))
    assert built(root, ".dkdbg/k8s/deployment-bert")["kind"] == "Deployment"


def test_a_cronjobs_copy_is_one_job_and_a_statefulsets_has_volumes_that_go_with_it(tmp_path, dkdbg):
    claims = [{"metadata": {"name": "cache"}, "spec": {}}]
    ranks = workload("StatefulSet", "ranks", serviceName="ranks", volumeClaimTemplates=claims)
    once = workload("Job", "once", activeDeadlineSeconds=9)
    text = manifests(workload("CronJob", "nightly"), ranks, workload("PyTorchJob", "bert"), once)
    root = project(tmp_path, {"k8s/kustomization.yaml": "resources: [a.yaml]\n", "k8s/a.yaml": text})
    several = dkdbg(root, "init", "--k8s", "--yes")
    assert "4 workloads match: cronjob/nightly (k8s/a.yaml), job/once" in several.err
    for which in ("nightly", "statefulset/ranks", "pytorchjob/bert", "once"):
        must(dkdbg(root, "init", "--k8s", which, "--yes"))
    job = built(root, ".dkdbg/k8s/cronjob-nightly")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert "schedule" not in job["spec"]
    ranks = built(root, ".dkdbg/k8s/statefulset-ranks")["spec"]
    assert "volumeClaimTemplates" not in ranks
    assert {"name": "cache", "emptyDir": {}} in ranks["template"]["spec"]["volumes"]
    for each in built(root, ".dkdbg/k8s/pytorchjob-bert")["spec"]["pytorchReplicaSpecs"].values():
        found = each["template"]["spec"]
        assert found["containers"][0]["command"][0] == "sh"
        assert found["volumes"][-1]["configMap"]["name"] == "bert-dkdbg-agent"
    assert "activeDeadlineSeconds" not in built(root, ".dkdbg/k8s/job-once")["spec"]
    entries = jsonc.loads((root / ".vscode/launch.json").read_text())["configurations"]
    assert len({each["connect"]["port"] for each in entries}) == 4

    must(dkdbg(root, "init", "--yes"))  # the one for containers
    assert built(root, ".dkdbg/k8s/job-once")
    assert len(jsonc.loads((root / ".vscode/launch.json").read_text())["configurations"]) == 5


def test_a_file_of_the_overlay_that_somebody_has_edited_is_kept(tmp_path, dkdbg):
    root = project(tmp_path, {"k8s/bert.yaml": manifests(workload())})
    must(dkdbg(root, "init", "--k8s", "--yes"))
    path = root / ".dkdbg/k8s/deployment-bert/kustomization.yaml"
    path.write_text(path.read_text() + "namespace: mine\n")
    (root / "k8s/bert.yaml").write_text(manifests(workload(replicas=7)))
    said = must(dkdbg(root, "init", "--k8s", "--yes")).out
    assert "you changed it" in said
    made = built(root, ".dkdbg/k8s/deployment-bert")
    assert (made["metadata"]["namespace"], made["spec"]["replicas"]) == ("mine", 7)


@pytest.mark.parametrize(
    ("files", "words", "said", "hint"),
    [
        ({}, (), "no manifest in this repository has one of: Deployment, StatefulSet", "dkdbg up k8s://"),
        (
            {"chart/Chart.yaml": "name: x\n", "chart/templates/d.yaml": "kind: Deployment\nname: {{ .x }}\n"}, (),
            "chart is a Helm chart", "helm template RELEASE chart > k8s.yaml, with the RELEASE that helm list shows; then dkdbg init --k8s --from k8s.yaml",
        ),
        (
            {"k8s/kustomization.yaml": "resources: [a.yaml, 'https://example.invalid/x?ref=1']\n", "k8s/a.yaml": manifests(workload())},
            (), "k8s/kustomization.yaml fetches https://example.invalid", "kubectl kustomize k8s > k8s.yaml",
        ),
        (
            {"k8s/kustomization.yaml": "resources: [a.yaml]\nhelmCharts: [{name: x}]\n", "k8s/a.yaml": manifests(workload())},
            (), "has helmCharts", "--from k8s.yaml",
        ),
        ({"k8s/a.yaml": manifests(workload())}, ("other",), "no workload here is called other: deployment/bert", "--k8s deployment/bert"),
        (
            {"k8s/a.yaml": manifests(workload())}, ("--from", "k8s"), "k8s has no kustomization.yaml; manifests below it: k8s/a.yaml",
            "--from takes a file, or a folder with kustomization.yaml: --from k8s/a.yaml",
        ),
        ({"k8s/a.yaml": manifests(workload())}, ("--from", "."), ". has no kustomization.yaml", ": --from k8s/a.yaml"),
        ({"k8s/a.yaml": manifests(workload())}, ("--from", "k9s"), "there is no k9s in this repository", "--from k8s/train.yaml"),
        ({"k8s/a.yaml": manifests(workload())}, ("--to", "x"), "x is not an absolute path", "--to /workspace"),
        ({"k8s/a.yaml": manifests(workload())}, ("--container", "x"), "has no container x; there are: main, logs", "name one"),
        ({"k8s/a.yaml": manifests(workload())}, ("--namespace", "M/L"), "M/L is not a valid namespace", "--namespace ml"),
        (
            {"a/kustomization.yaml": "resources: [../k]\n", "b/kustomization.yaml": "resources: [../k]\n",
             "k/kustomization.yaml": "resources: [a.yaml]\n", "k/a.yaml": manifests(workload())},
            (), "2 folders build deployment/bert: a, b", "--from a",
        ),
        ({"k8s/a.yaml": manifests(workload()).replace('"command": ["python", "train.py"], ', "")}, (), "gets its command from its image", "--command"),
        ({"k8s/a.yaml": manifests(workload()).replace('"workingDir": "/workspace", ', "")}, (), "the code's folder in the container is unknown", "--to /workspace"),
        ({"k8s/a.yaml": "kind: Deployment\n  x: [\n"}, (), "k8s/a.yaml:2: not valid YAML", ""),
        ({"k8s/kustomization.yaml": "resources: [a.yaml, gone.yaml]\n", "k8s/a.yaml": manifests(workload())}, (), "kustomize cannot build k8s: ", "kubectl kustomize k8s must work first"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_and_nothing_is_written(tmp_path, dkdbg, *, files, words, said, hint):
    root = project(tmp_path, files)
    before = snapshot(root)
    done = dkdbg(root, "init", "--k8s", *words, "--yes")
    assert done.code not in {0, 1}, done.out
    assert said in done.err
    assert hint in done.err
    assert "Traceback" not in done.err
    assert snapshot(root) == before
