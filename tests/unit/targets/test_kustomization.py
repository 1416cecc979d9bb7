"""What kustomize builds is read first: it fetches URLs, and clones repositories with the user's keys."""

import json
import os

import pytest

from dkdbg.core import address
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.kubernetes import copies, overlays
from dkdbg.targets.kubernetes.pod_address import query_of
from tests.commands import executable
from tests.engine.projects import write

BASE = {
    "k8s/a.yaml": "kind: Deployment\n",
    "k8s/p.yaml": "x: 1\n",
    "base/kustomization.yaml": "resources: [b.yaml]\nnamePrefix: x-\n",
    "base/b.yaml": "kind: Job\n",
    "k8s/b@v1.yaml": "kind: Job\n",
    "k8s/a:b.yaml": "x: 1\n",
}
GOOD = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [a.yaml, ../base, ../base, b@v1.yaml]
commonAnnotations: {url: 'https://example.invalid'}
images: [{name: a, newName: 'localhost:5000/a'}]
configMapGenerator: [{name: c, files: [p.yaml, k=p.yaml, b@v1.yaml, 'a:b.yaml'], literals: ['a=http://b'], envs: [p.yaml]}]
patches: [{path: p.yaml}, {target: {kind: Job}, patch: '[{"op": "add", "path": "/a", "value": "http://b"}]'}, p.yaml]
patchesStrategicMerge:
- p.yaml
- |
  url: http://a
- '{"url": "http://a"}'
- |-
  {"url": "http://a"}
helmGlobals: {chartHome: charts}
replacements: [{path: p.yaml}, {source: {kind: Job}, targets: []}]
openapi: {path: p.yaml}
crds: [p.yaml]
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A fake that notes its environment; without that it was not run."""
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "bin/kubectl", f"env >{tmp_path}/ran")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "ran"


def test_what_is_here_is_built_without_a_network(tmp_path, kubectl):
    write(tmp_path, **BASE, **{"k8s/kustomization.yaml": GOOD})
    assert overlays.render(tmp_path / "k8s", "k8s") == []
    environment = kubectl.read_text().splitlines()
    assert {"GIT_ALLOW_PROTOCOL=none", "https_proxy=http://127.0.0.1:0", "NO_PROXY="} <= set(environment)


@pytest.mark.parametrize(
    "text",
    [
        "resources: [a.yaml, 'alice@evil:org/repo']",
        "resources: [GitHub.com/org/repo]",
        "resources: [alice@evil/org/repo]",
        "resources: ['{a: http://evil/x}']",
        "Resources: ['http://evil/x']",
        "re\u017fources: ['http://evil/x']",
        "<<: {resources: ['http://evil/x']}",
        "resources: [!!binary aHR0cDovL2V2aWwveA==]",
        "resources: [github.com/org/repo]",  # a folder of that name is here
        "bases: ['git::evil']",
        "components: [../base, ../gone]",
        "resources: [../remote]",
        "resources: [../vendor/x]",
        "resources: [../big]",
        "resources: [../empty]",
        "resources: [../twice]",
        "resources: [link/../remote]",  # of this folder, whatever the link leads to
        "patches: [{path: 'http://evil/p'}]",
        "patches: ['http://evil/p']",
        "patches: [{Path: gone.yaml}]",
        f"# {'é' * 250_000}\nresources: ['http://evil/x']",
        f"resources: [{'a' * 300}]",
        'resources: ["a\\0b"]',
        "resources: [loop]",
        "patchesStrategicMerge: ['http://evil/x: 1']",
        "patchesJson6902: [{path: 'http://evil/p'}]",
        "configMapGenerator: [{name: a, files: ['http://evil/cm']}]",
        "configMapGenerator: [{name: a, files: ['k=http://evil/cm']}]",
        "configMapGenerator: [{name: a, files: &a ['http://evil/?x=p.yaml'], envs: *a}]",
        "secretGenerator: [{name: a, envs: ['http://evil/cm']}]",
        "secretGenerator: [{name: a, env: gone}]",
        "crds: ['http://evil/x']",
        "crds: [' HTTPS://evil/x']",
        "crds: ['alice@evil:org/repo']",
        "configurations: ['http://evil/x']",
        "openapi: {path: 'http://evil/x'}",
        "replacements: [{path: 'http://evil/x'}]",
        "transformers: ['http://evil/x']",
        "generators: [p.yaml]",
        "helmCharts: [{name: x}]",
        "fetches: ['http://evil/x']",  # a key that a later kustomize may have
        "# \u2028resources: ['http://evil/x']",
        "resources: [a.yaml]\n---\nresources: ['http://evil/x']",
        ("a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nresources: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]"),
        "kind: [",
    ],
)  # fmt: skip
def test_what_is_not_here_or_cannot_be_read_is_refused_before_kustomize_runs(tmp_path, kubectl, text):
    remote = "resources: ['http://evil/x']\n"
    write(
        tmp_path, **BASE,
        **{
            "k8s/kustomization.yaml": f"{text}\n", "k8s/github.com/org/repo/kustomization.yaml": "{}\n",
            "remote/Kustomization": remote, "k8s/remote/kustomization.yml": remote, "vendor/x/kustomization.yaml": remote,
            "big/kustomization.yaml": f"resources: []\n#{'x' * 700_000}\n", "empty/a.yaml": "{}\n",
            "twice/kustomization.yaml": "{}\n", "twice/Kustomization": remote, "good/in/a.yaml": "{}\n",
            "good/remote/kustomization.yaml": "{}\n",
        },
    )  # fmt: skip
    (tmp_path / "k8s/link").symlink_to(tmp_path / "good/in")
    (tmp_path / "k8s/loop").symlink_to("loop")
    with pytest.raises(DkdbgError) as caught:
        overlays.render(tmp_path / "k8s", "k8s")
    assert caught.value.exit_code == EXIT_USAGE
    assert "kubectl kustomize " in caught.value.hint
    assert not kubectl.exists()


def test_an_overlay_is_read_first_too(tmp_path, kubectl):
    agent = {"agent/agent.pyz": "x"}
    write(tmp_path, **agent, **{"o/kustomization.yaml": json.dumps({"resources": ["http://evil/x"]})})
    query = query_of(address.parse("k8s://ml/deployment/bert"))
    with pytest.raises(DkdbgError, match="fetches http://evil/x, which dkdbg never does"):
        copies.from_overlay(query, tmp_path / "o")
    assert not kubectl.exists()
