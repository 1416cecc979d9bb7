"""Breakpoints find the code that Ray has unpacked from a `working_dir`; answers of a dashboard are Ray 2.60's, shortened."""

import json
import socket
import threading

import pytest

from dkdbg.agent.dap import frames
from dkdbg.agent.proxy.broker.stops import Stops
from dkdbg.agent.ray.child_proxy import ChildProxy
from dkdbg.agent.ray.dashboard import Dashboard
from dkdbg.agent.ray.unpacked import Code, folder, script
from tests.agent.dap_probe import messages_of
from tests.agent.test_ray_proxy import rows, stand_in

__all__ = ["stand_in"]

SESSION = "session_2026-11-23_12-37-01_510275_9"
FOLDER = f"/tmp/ray/{SESSION}/runtime_resources/working_dir_files/_ray_pkg_4aa223a420d23a93"
ENV = '{"working_dir": "gcs://_ray_pkg_4aa223a420d23a93.zip"}'
OWN = {"localRoot": "/home/me/repo", "remoteRoot": "/job"}
LIMIT = 300.0


@pytest.mark.parametrize(
    ("session", "env", "found"),
    [
        (SESSION, ENV, FOLDER),
        (SESSION, "{}", ""),
        (SESSION, "", ""),
        (SESSION, "[", ""),
        (SESSION, '{"working_dir": "/shared/repo"}', ""),
        (SESSION, '{"working_dir": "gcs://../../etc.zip"}', ""),
        ("../..", ENV, ""),
        ("", ENV, ""),  # Ray 2.9 does not report its session
    ],
)
def test_where_a_node_unpacks_a_working_dir_is_taken_from_what_ray_says_and_from_nothing_else(
    session, env, found
):
    assert folder(session, env) == found


def test_a_worker_is_listed_with_its_folder_and_with_the_script_of_its_driver(stand_in):
    worker = {
        "worker_id": "w1", "is_alive": True, "ip": "127.0.0.1", "node_id": "n1", "pid": 528, "debugger_port": 48501,
        "num_paused_threads": 1,
    }  # fmt: skip
    task = {
        "worker_id": "w1", "name": "crunch", "job_id": "01000000", "runtime_env_info": {"serialized_runtime_env": ENV},
    }  # fmt: skip
    for kind, submission, entrypoint, main in (
        ("DRIVER", None, "python3 /job/drive.py --n 2", "/job/drive.py"),
        ("SUBMISSION", "raysubmit_1", "python3 drive.py", ""),
    ):
        job = {"type": kind, "job_id": "01000000", "submission_id": submission, "entrypoint": entrypoint}
        dashboard = stand_in(
            {
                "/api/version": (200, {"ray_version": "2.60.0", "session_name": SESSION}),
                "/api/v0/workers": rows(worker),
                "/api/v0/tasks": rows(task),
                "/api/v0/nodes": rows(),
                "/api/jobs/": (200, json.dumps([job]).encode()),
            }
        )
        asked = Dashboard("127.0.0.1", dashboard.port)
        asked.check()
        (found,) = asked.workers()
        assert (found.unpacked, found.main) == (FOLDER, main)


@pytest.mark.parametrize("main", ["/job/tools/drive.py", "tools/drive.py"])
def test_what_a_driver_imports_is_in_the_folder_and_its_own_script_where_it_was(main):
    code = Code([OWN], FOLDER, main)
    assert code.mappings[:2] == [{"localRoot": "/home/me/repo", "remoteRoot": FOLDER}, OWN]
    assert code.to_worker("/home/me/repo/model.py") == "/home/me/repo/model.py"
    alias = code.to_worker("/home/me/repo/tools/drive.py")
    (last,) = [each for each in code.mappings if alias.startswith(each["localRoot"] + "/")]
    assert alias.replace(last["localRoot"], last["remoteRoot"]) == "/job/tools/drive.py"
    assert code.mappings.index(last) > code.mappings.index(
        OWN
    )  # frames of the script are the editor's own path
    assert code.to_editor(json.dumps({"path": alias}).encode()) == b'{"path": "/home/me/repo/tools/drive.py"}'


def test_modules_that_ray_has_unpacked_are_found_in_the_editors_folder_beside_those_of_the_working_dir():
    pair = ("/tmp/ray/s/runtime_resources/py_modules_files/_ray_pkg_1/lib", "/job/src/lib")
    mapping = {"localRoot": "/home/me/repo/src/lib", "remoteRoot": pair[0]}
    assert Code([OWN], "", "", "", [pair]).mappings == [mapping, OWN]
    assert Code([OWN], FOLDER, "", "", [pair]).mappings[0] == mapping
    assert Code([OWN], "", "", "", [(pair[0], "/elsewhere/lib")]).mappings == []


def test_without_such_a_folder_or_mappings_an_attach_stays_as_it_is():
    for mappings, unpacked in (([OWN], ""), ([], FOLDER), (None, FOLDER), ([7, {"localRoot": ""}], FOLDER)):
        assert Code(mappings, unpacked, "/job/drive.py" * (not unpacked)).mappings == []


def test_the_script_of_a_job_is_the_first_file_of_python_that_its_command_names():
    assert script("python3 -u train.py other.py") == "train.py"
    assert script("python3 -m train") == ""


def test_a_breakpoint_in_the_drivers_script_goes_where_the_driver_has_it_and_comes_back_as_the_editors():
    (editor, client), (worker, debugger) = socket.socketpair(), socket.socketpair(socket.AF_UNIX)
    for each in (editor, debugger):
        each.settimeout(LIMIT)
    attach = {"seq": 2, "command": "attach", "arguments": {"pathMappings": [OWN], "subProcessId": 1}}
    child_proxy = ChildProxy(
        client, frames.FrameParser(), worker, b"", initialize={"seq": 1, "command": "initialize"},
        attach={"type": "request", **attach}, code=Code([OWN], FOLDER, "/job/drive.py"), stops=Stops(lambda _: None),
        forked=0, announce=[].append,
    )  # fmt: skip
    thread = threading.Thread(target=child_proxy.serve, daemon=True)
    thread.start()
    try:
        heard, answers = messages_of(debugger), messages_of(editor)
        assert next(heard)["command"] == "initialize"
        assert next(heard)["arguments"]["pathMappings"][0]["remoteRoot"] == FOLDER
        for path, told in (
            ("model.py", "/home/me/repo/model.py"),
            ("drive.py", "/home/me/repo.dkdbg-driver/drive.py"),
        ):
            source = {"path": f"/home/me/repo/{path}"}
            asked = {
                "seq": 3,
                "type": "request",
                "command": "setBreakpoints",
                "arguments": {"source": source},
            }
            editor.sendall(frames.encode(asked))
            assert next(heard)["arguments"]["source"]["path"] == told
            body = {"breakpoints": [{"source": {"path": told}}]}
            debugger.sendall(frames.encode({"type": "response", "command": "setBreakpoints", "body": body}))
            assert next(answers)["body"]["breakpoints"][0]["source"] == source
    finally:
        for each in (editor, debugger):
            each.close()
        thread.join(LIMIT)
        for each in (client, worker):
            each.close()
