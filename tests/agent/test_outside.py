"""What py-spy says of a process is read as the process would say it itself."""

import json

from dkdbg.agent.supervisor import where

#: Of py-spy 0.4.3: `py-spy dump --json --nonblocking --pid 29619`, with one of three frames of a thread's beginning.
DUMP = """[
  {"pid": 29619, "thread_id": 140654864201408, "thread_name": "aside", "os_thread_id": 29702, "active": false, "owns_gil": false,
   "frames": [{"name": "Thread.run", "filename": "/usr/lib/python3.11/threading.py", "module": null,
               "short_filename": "threading.py", "line": 982, "locals": null, "is_entry": false, "is_shim_entry": false}],
   "process_info": null},
  {"pid": 29619, "thread_id": 140654879169408, "thread_name": "MainThread", "os_thread_id": 29619, "active": false,
   "owns_gil": false,
   "frames": [{"name": "nap", "filename": "/home/me/nap.py", "module": null, "short_filename": "nap.py", "line": 4,
               "locals": null, "is_entry": false, "is_shim_entry": false}],
   "process_info": null}
]"""


def test_a_dump_has_the_main_thread_first_and_tells_own_code_from_installed():
    found = where.read_py_spy(json.loads(DUMP), 29619)
    assert [(each["name"], each["main"], each["frames"]) for each in found] == [
        ("MainThread", 1, [("/home/me/nap.py", 4, "nap", 1)]),
        ("aside", 0, [("/usr/lib/python3.11/threading.py", 982, "Thread.run", 0)]),
    ]


def test_the_thread_of_the_agent_is_left_out():
    dump = json.loads(DUMP)
    dump[0]["frames"][0]["filename"] = "/tmp/dkdbg-0/hook-1/inprocess/hook/sitecustomize.py"
    assert [each["name"] for each in where.read_py_spy(dump, 29619)] == ["MainThread"]


#: Of py-spy 0.4.3 on a process that has ended; the backtrace goes on.
COMPLAINT = """\
Error: Failed to get process executable name. Check that the process is running.

Caused by:
    0: No such file or directory (os error 2)

Stack backtrace:
   0: <E as anyhow::context::ext::StdError>::ext_context
"""


def test_what_py_spy_complains_of_is_its_first_line_and_no_backtrace():
    reason = "Failed to get process executable name. Check that the process is running."
    assert where.complaint(COMPLAINT) == reason
    assert where.complaint("") == "no output"
