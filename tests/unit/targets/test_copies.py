"""What is left of a debug copy that is not completed."""

import types

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.targets.kubernetes import copies
from dkdbg.targets.kubernetes.pod_address import PodQuery

MADE = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"uid": "1"}}


@pytest.mark.parametrize("error", [DkdbgError("forbidden"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_copy_without_its_agent(monkeypatch, error):
    left = []

    def create(_query, document):
        if document["kind"] == "ConfigMap":
            raise error
        left.append(document)
        return MADE

    monkeypatch.setattr(copies, "_created", create)
    monkeypatch.setattr(copies, "remove", lambda _: left.clear())
    copy = types.SimpleNamespace(document=MADE, name="bert-dkdbg", agent_map="map")
    query = PodQuery(namespace="ml", kind="deployment", name="bert", rank=None, selector="", container="")
    with pytest.raises(type(error)):
        copies.make(query, copy, b"")
    assert not left
