"""Python processes that start while an editor is attached: each joins before its first line."""

from pathlib import Path

import pytest

from tests.agent.dap_probe import Editor, wait_for

STEPS = "x = 1\ny = 2\n\n\ndef work(n):\n    return n + 1\n"
#: The program: starts one child, and ends with it.
STARTS = "import os, subprocess, sys\n{0}\n"
#: The program: starts each child in a folder of its own, which has a copy of the module.
STARTS_ALL = """
import os, shutil, subprocess, sys
for number, start in enumerate({starts!r}):
    os.mkdir(str(number))
    shutil.copy("steps.py", str(number))
    os.chdir(str(number))
    exec(start)
    os.chdir("..")
"""


CHILDREN = {
    "a module that is imported late, in -c code": "subprocess.run([sys.executable, '-c', 'import json, steps'])",
    "the script itself": "subprocess.run([sys.executable, 'steps.py'])",
    "a module by -m": "subprocess.run([sys.executable, '-m', 'steps'])",
    "a package's main module": (
        "os.mkdir('pkg'); os.link('steps.py', 'pkg/real.py'); open('pkg/__init__.py', 'w').close();"
        "open('pkg/__main__.py', 'w').write('import steps'); subprocess.run([sys.executable, '-m', 'pkg'])"
    ),
    "a script with a shebang": (
        "text = open('steps.py').read(); open('steps.py', 'w').write('#!%s\\n%s' % (sys.executable, text));"
        "os.chmod('steps.py', 0o755); subprocess.run([os.path.abspath('steps.py')])"
    ),
    "a console script": (
        "open('run', 'w').write('#!%s\\nimport sys\\nsys.path.insert(0, %r)\\nfrom steps import work\\nsys.exit(work(-1))\\n'"
        " % (sys.executable, os.getcwd())); os.chmod('run', 0o755); subprocess.run([os.path.abspath('run')])"
    ),
    "a shell in another folder": (
        "subprocess.run('cd / && %s %s/steps.py; exit $?' % (sys.executable, os.getcwd()), shell=True)"
    ),
    "a link to the file": "os.symlink('steps.py', 'other.py'); subprocess.run([sys.executable, 'other.py'])",
    "after exec": (
        "subprocess.run([sys.executable, '-c', "
        "'import os, sys; os.execv(sys.executable, [sys.executable, \"steps.py\"])'])"
    ),
    "a grandchild": (
        "subprocess.run([sys.executable, '-c', "
        "'import subprocess, sys; subprocess.run([sys.executable, \"steps.py\"])'])"
    ),
    "a fork of a child": (
        "subprocess.run([sys.executable, '-c', "
        "'import os\\nif os.fork() == 0:\\n    import steps\\nelse:\\n    os.wait()'])"
    ),
    "compiled by the program": (
        "subprocess.run([sys.executable, '-c', "
        '\'exec(compile(open("steps.py").read(), os.path.abspath("steps.py"), "exec"))\'.replace(\'exec(\', '
        "'import os; exec(', 1)])"
    ),
    "a thread": (
        "subprocess.run([sys.executable, '-c', "
        "'import threading; t = threading.Thread(target=__import__, args=(\"steps\",)); t.start(); t.join()'])"
    ),
}


@pytest.mark.parametrize("minor", [8, pytest.param(11, marks=pytest.mark.core), 14])
def test_a_child_stops_at_a_breakpoint_of_its_first_lines_however_it_is_started(
    program, under, tmp_path, minor
):
    (tmp_path / "steps.py").write_text(STEPS)
    running = program(STARTS_ALL.format(starts=list(CHILDREN.values())), wait="300", **under(minor))
    folders = {str(tmp_path / str(number)): name for number, name in enumerate(CHILDREN)}
    with Editor(running.port, {f"{folder}/steps.py": [2] for folder in folders}) as editor:
        running.ends()
    stopped = [folders[str(Path(stop["path"]).parent)] for stop in editor.stops if stop["line"] == 2]
    assert sorted(stopped) == sorted(CHILDREN)


CLEARED = """
import os, subprocess, sys
done = subprocess.run([sys.executable, "steps.py"], env={}, stderr=subprocess.PIPE)
sys.stdout.write(done.stderr.decode())
os.execve(sys.executable, [sys.executable, "steps.py"], {})
"""


@pytest.mark.parametrize("minor", [11, 13])
def test_a_child_whose_environment_was_cleared_stops_and_prints_nothing_of_the_debuggers(
    program, under, tmp_path, minor
):
    (tmp_path / "steps.py").write_text(STEPS + "breakpoint()\nz = 3\n")
    running = program(CLEARED, wait="300", **under(minor))
    with Editor(running.port, {str(tmp_path / "steps.py"): [2]}) as editor:
        code, out, err = running.finish()
    assert (code, out, "frozen" in err) == (0, "", False)
    assert [stop["line"] for stop in editor.stops] == [2, 8, 2, 8]


FORKED_IN_C = """
import ctypes, os

def work():
    return 1

pid = ctypes.PyDLL(None).fork()
print(work(), flush=True)
if pid:
    os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("minor", [8, 11, 13, 14])
def test_a_child_that_c_code_has_forked_says_why_it_does_not_stop_and_ends(program, under, minor):
    """It runs no callback of os.fork, and has a copy of the debugger without the threads."""
    running = program(FORKED_IN_C, wait="300", **under(minor))
    with Editor(running.port, {running.script: [5]}) as editor:
        code, out, err = running.finish()
    assert (code, out, err.count("C code has forked it")) == (0, "1\n1\n", 1)
    assert [stop["line"] for stop in editor.stops] == [5]


FAILS = {
    "in_the_main_thread.py": "def fail():\n    raise ValueError(1)\nfail()\n",
    "with_a_hook_of_its_own.py": "import sys\nsys.excepthook = lambda *_: None\nraise ValueError(1)\n",
    "in_a_thread.py": (
        "import threading\ndef fail():\n    raise ValueError(1)\nt = threading.Thread(target=fail)\nt.start()\nt.join()\n"
    ),
    "sys_exit.py": "import sys\n\ndef main():\n    sys.exit(3)\n\nmain()\n",
    "raised_by_name.py": "def main():\n    return 3\n\nraise SystemExit(main())\n",
    "argparse_says_so.py": "import argparse\nparser = argparse.ArgumentParser()\n\nparser.parse_args(['-x'])\n",
}


@pytest.mark.parametrize("minor", [8, 13])
def test_an_uncaught_exception_or_an_exit_with_a_failure_code_stops_in_a_child(
    program, under, tmp_path, minor
):
    for name, text in FAILS.items():
        (tmp_path / name).write_text(text)
    starts = f"for name in {list(FAILS)}: subprocess.run([sys.executable, name], stderr=subprocess.DEVNULL)"
    running = program(STARTS.format(starts), wait="300", **under(minor))
    with running.debugged(filters=["uncaught"]) as debugger:
        for name, text in FAILS.items():
            stop = debugger.wait_stopped(300)
            frame = debugger.stack(stop)[0]
            assert frame.path == str(tmp_path / name)
            if "raise ValueError" not in text:
                assert (stop.text, frame.line) == ("SystemExit", 4), name
            debugger.continue_(stop)
        running.ends()


KIDS = {
    "imports a file with a breakpoint": ("import steps\nprint('child done')", 0),
    "ends with 3": ("raise SystemExit(3)", 3),
    "raises": ("raise ValueError('child failed')", 1),
    "only prints": ("print('child done')", 0),
}


@pytest.mark.parametrize(("ends", "code"), KIDS.values(), ids=KIDS.keys())
@pytest.mark.core
def test_a_child_that_an_editor_comes_late_for_runs_to_its_end(program, tmp_path, ends, code):
    """The hook's thread joins while the main thread imports, raises or ends."""
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "child.py").write_text(
        f"import os, time\nopen('runs', 'w').close()\nwhile not os.path.exists('go'):\n    time.sleep(0.001)\n{ends}\n"
    )
    running = program(STARTS.format("print(subprocess.run([sys.executable, 'child.py']).returncode)"))
    wait_for((tmp_path / "runs").exists, bool)
    with Editor(running.port, {str(tmp_path / "steps.py"): [2]}):
        (tmp_path / "go").touch()
        assert running.finish()[1].splitlines()[-1] == str(code)
