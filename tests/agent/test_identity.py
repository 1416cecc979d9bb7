"""The launch entry of one project does not attach to the program of another one that holds the port."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.agent.dap_probe import Client, Editor, wait_for

MINE, ANOTHER = "llm-train-0123abcd", "vision-89ab4567"


def connect(port: int, project: str) -> dict[str, Any]:
    return {"connect": {"host": "127.0.0.1", "port": port, "project": project}}


def test_the_entry_of_another_project_is_refused_with_what_runs_and_what_to_type(loop) -> None:
    port = loop(DKDBG_PROJECT=MINE).wait_state("running")["port"]
    with Client(port) as client:
        refusal = client.refusal("attach", **connect(port, ANOTHER))
    assert refusal["body"]["error"]["showUser"] is True
    assert refusal["message"] == (
        "dkdbg: this port belongs to another project: llm-train, which runs train.py; this launch entry belongs to vision. "
        "Type `dkdbg up` in your project, which takes a free port, or stop the other one (its task `dkdbg: stop`)"
    )


@pytest.mark.parametrize(
    ("here", "expected"),
    [(MINE, {"project": MINE}), (MINE, {}), ("", {"project": ANOTHER}), (MINE, {"project": 7})],
)
def test_the_same_project_and_entries_without_one_attach_and_get_the_processes(
    launch, tmp_path, here: str, expected: dict[str, Any]
) -> None:
    (tmp_path / "train.py").write_text("import time\nwhile True:\n    time.sleep(0.02)\n")
    running = launch(sys.executable, "train.py", env={"DKDBG_PROJECT": here})
    port = running.wait_state("running")["port"]
    more = {"connect": {"host": "127.0.0.1", "port": port, **expected}}
    with Editor(port, {str(tmp_path / "train.py"): [3]}, hold=True, more=more) as editor:
        assert editor.wait_stops(1)[0]["line"] == 3
        wait_for(lambda: editor.errors, lambda errors: errors == [])
