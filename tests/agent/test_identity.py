"""The launch entry of one project does not attach to the program of another one that holds the port."""

import pytest

from tests.agent.dap_probe import Client, Editor, wait_for

MINE, ANOTHER = "llm-train-0123abcd", "vision-89ab4567"


@pytest.mark.parametrize(
    ("here", "entries"), [(MINE, [{"project": MINE}, {}, {"project": 7}]), ("", [{"project": ANOTHER}])]
)
def test_an_entry_of_another_project_is_refused_and_the_own_and_those_without_one_get_the_processes(
    loop, here, entries
):
    running = loop(DKDBG_PROJECT=here)
    connect = {"host": "127.0.0.1", "port": running.port}
    if here:
        with Client(running.port) as client:
            refusal = client.refusal("attach", connect={**connect, "project": ANOTHER})
        assert refusal["body"]["error"]["showUser"] is True
        assert refusal["message"] == (
            "dkdbg: this port belongs to another project: llm-train, which runs train.py; this launch entry belongs to vision. "
            "Type `dkdbg up` in your project, which takes a free port, or stop the other one (its task `dkdbg: stop`)"
        )
    for entry in entries:
        more = {"connect": {**connect, **entry}}
        with Editor(running.port, {running.script: [4]}, hold=True, more=more) as editor:
            assert editor.wait_stops(1)[0]["line"] == 4
            wait_for(lambda: editor.errors, lambda errors: errors == [])
        wait_for(lambda: running.record()["client"], lambda client: not client)
