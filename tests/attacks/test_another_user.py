"""Another user of the same machine: he reads /proc and connects to whatever listens on loopback."""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from dkdbg.agent import contract
from dkdbg.agent.inprocess.clocks import held_time
from dkdbg.agent.proxy.listener import local_users
from dkdbg.agent.ray import dashboard, worker_registry
from dkdbg.agent.state import announced, processes, records
from dkdbg.agent.supervisor import hook_check
from dkdbg.core import brought
from dkdbg.targets.batch import job_line
from dkdbg.targets.ssh import target
from tests.agent.dap_probe import Editor, wait_for
from tests.agent.nc import PROMPT, Client
from tests.agent.test_ray_proxy import listing, stand_in  # noqa: F401
from tests.attacks import listening
from tests.attacks.host_editor import HostEditor
from tests.attacks.test_web_page import await_port, start, use
from tests.commands import command, must
from tests.engine.attach_proxies import attach_proxy, ready_proxy
from tests.far.test_relay import connect, far, relay  # noqa: F401
from tests.ports import free_port
from tests.processes import children, thread_states

FAKE = (Path(__file__).parent / "fake_agent.py").read_text()


def ports_of(pid: int) -> list[int]:
    """The TCP ports of this process and of all below it, which any user finds in /proc/net/tcp."""
    return [int(one.address.rpartition(":")[2]) for one in listening.of(pid) if one.kind == "tcp"]


#: Speaks DAP to each port of argv, shows no token, and prints what he is let in to.
CLIENT = """
for port in sys.argv[1:]:
    said = ask(port, attach(dkdbgToken="TOKEN"), until=b'"initialized"').decode(errors="replace")
    print(port, said, "let in" if '"initialized"' in said else "kept out")
"""
#: Waits at each port of argv for what debugpy's adapter says to a process that joins, and says that it is one.
PROCESS = """
for port in sys.argv[1:]:
    print(port, ask(port, b"", timeout=3).decode(errors="replace"))
"""
#: Attaches with the arguments in argv, sends what an attack would, and is gone at once. Data that fills the receive window
#: keeps his FIN from the other end, which stays established.
BLIND = """
def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
def fill(sock):
    sock.sendall(b"Content-Length: 250000\\r\\n\\r\\n")
    sock.setblocking(False)
    try:
        while True:
            sock.send(b" " * (1 << 20))
    except BlockingIOError:
        sock.close()
for _ in range(8):
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)
    sock.sendall(
        attach(**json.loads(sys.argv[2]))
        + frame(seq=3, command="configurationDone", arguments={})
        + frame(seq=4, command="disconnect", arguments={"terminateDebuggee": True})
    )
    ENDING
print("sent")
"""
#: Thirty wrong tokens, all at once.
GUESSES = """
def guess(number):
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=300)
    sock.sendall(attach(dkdbgToken="guess %d" % number))
    return sock
wrong = 0
for sock in [guess(number) for number in range(30)]:
    data = b""
    while b"is wrong" not in data:
        data += sock.recv(65536) or exit("closed: %r" % data)
    wrong += 1
print(wrong, "wrong")
"""
#: Prints /status.
STATUS = """
import urllib.request
print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/status").read().decode())
"""
#: Opens so many connections, each within so many seconds, says how many there are, and nothing to the port.
HOLDS = """
port, count, limit = map(int, sys.argv[1:])
held = []
for _ in range(count):
    try:
        held.append(socket.create_connection(("127.0.0.1", port), limit))
    except OSError:
        pass
print(len(held), "open", flush=True)
sys.stdin.read()
"""


@pytest.mark.attack(1)
def test_every_port_of_the_agent_and_its_adapter_asks_for_the_token(launch, other_user):
    """Attaches to every port of the agent and of debugpy's adapter, without the token, and reads /status for more of them: there
    is no port but the listener's, and that refuses him."""
    running = launch("sleep", "600", env={"DKDBG_TOKEN": "right-token"})
    record = running.wait_state("running")
    ports = ports_of(record["pid"])
    said = other_user.python(CLIENT, *map(str, ports)).stdout
    assert "kept out" in said
    assert "let in" not in said
    assert ports == [record["port"]]
    status = json.loads(other_user.python(STATUS, str(record["port"])).stdout)
    assert status["adapter_up"] is True
    assert [name for name in status if "port" in name] == []


@pytest.mark.attack(2)
def test_a_foreign_process_gets_no_join_token_and_is_not_offered(launch, other_user, tmp_path):
    """Joins as a process to be debugged: gets neither debugpy's join token nor a place in the editor."""
    script = tmp_path / "train.py"
    script.write_text("import time\nwhile True:\n    time.sleep(0.02)\n")
    running = launch(sys.executable, "train.py")
    record = running.wait_state("running")
    with Editor(record["port"], {str(script): [3]}) as editor:
        editor.wait_stops(1)
        token = json.loads((running.runtime / record["id"] / "join.json").read_text())["token"]
        said = must(other_user.python(PROCESS, *map(str, ports_of(record["pid"])))).stdout
        assert token not in said
        assert "pydevdAuthorize" not in said
        where = running.runtime / record["id"] / "p" / "adapter.sock"
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        knock = other_user.python(code, str(where.resolve()))
        assert "PermissionError" in knock.stderr
        assert len(editor.sessions) == 2  # the root's and the program's


#: Connects, says what a debugger would do, and prints what comes back until the other side closes or says nothing.
TYPES = """
print(ask(sys.argv[1], sys.argv[2].encode(), until=b"(dkdbg) ", timeout=15).decode())
"""


@pytest.mark.attack(3)
@pytest.mark.parametrize("way", ["launch --pdb", "dkdbg.pai"])  # the others: test_web_page.py
def test_who_does_not_know_the_token_types_in_vain(other_user, launch, tmp_path, way):
    """Connects to pdb's port on loopback and types Python: asked for the token, and closed after a wrong one."""
    port, opened = free_port(), tmp_path / "written-by-another"
    running = start(launch, tmp_path, way, port)
    for line in (f"!open({str(opened)!r}, 'w').close()\n" * 3, "\n\n", "\x16\x03\x01" * 50, "x" * 9000):
        said = must(other_user.python(TYPES, str(port), line)).stdout
        assert PROMPT not in said
    assert not opened.exists()
    use(running, way, port)


@pytest.mark.attack(3)
def test_silent_connections_keep_nobody_out_of_pdb(other_user, launch, tmp_path):
    """Opens 150 connections to pdb and says nothing: whoever types the token gets in at once."""
    port = free_port()
    (tmp_path / "train.py").write_text("x = 1\nprint(x)\n")
    running = launch(sys.executable, "train.py", wait="300", options=("--pdb", str(port)))
    await_port(port, running.process)
    with other_user.begun(HOLDS, str(port), "150", "2") as crowd:
        assert "open" in crowd.stdout.readline()
        user = Client(port, running.process)
        user.sock.settimeout(8)  # less than a silent one has
        user.until()
        user.ask("n")
        assert user.ask("p x") == "1\n" + PROMPT


# -- dkdbg attach -------------------------------------------------------------------------------------------------

#: Asks each port of argv for its status and prints what comes.
READER = """
for port in sys.argv[1:]:
    print(ask(port, b"GET /status HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n", timeout=5))
"""


@pytest.mark.attack(0)
def test_nobody_else_attaches_through_dkdbg_attach(launch, other_user, tmp_path, monkeypatch):
    """Connects to the ports of `dkdbg attach`, which would prove the token for him: closed before they answer, and he is named."""
    running = launch("sleep", "600", env={"DKDBG_TOKEN": "right-token"})
    agent = running.wait_state("running")["port"]
    monkeypatch.setenv("DKDBG_TOKEN", "right-token")
    base = free_port(3)
    with attach_proxy(tmp_path, f"127.0.0.1:{agent}", options=("--ports", str(base))) as proxy:
        said = other_user.python(CLIENT, str(proxy.port), str(base)).stdout
        assert said.count("kept out") == 2, said
        read = must(other_user.python(READER, str(proxy.port), str(base))).stdout
        assert "HTTP/1.1 200" not in read
        assert "127.0.0.1:" not in read
        text = f"another user of this machine ({other_user.name})"
        wait_for(
            lambda: [each["text"] for each in [*proxy.events]],
            lambda texts: any(text in each for each in texts),
        )
        assert not running.record()["client"]
        with HostEditor(proxy.port) as mine:
            mine.attach(dkdbgToken="right-token")


@pytest.fixture
def impostor(other_user):
    """Run a fake agent as the other user; returns its port and what it has heard so far."""
    with contextlib.ExitStack() as stack:

        def start(mode):
            process = stack.enter_context(other_user.begun(FAKE, "127.0.0.1", "0", MODE=mode))
            port = int(process.stdout.readline().split()[1])
            heard = []
            threading.Thread(target=lambda: heard.extend(process.stdout), daemon=True).start()
            return port, heard

        yield start


@pytest.mark.attack(4)
@pytest.mark.parametrize("mode", ["", "nonce"])
def test_a_fake_agent_of_another_user_is_not_attached_to(impostor, tmp_path, mode):
    """Waits at a port of loopback for the attach of somebody else: hears neither token nor attach, as he cannot prove the token."""
    port, heard = impostor(mode)
    with ready_proxy(tmp_path, f"127.0.0.1:{port}") as proxy:
        for shown in ({"dkdbgToken": "right-token"}, {}):
            for process in ({}, {"subProcessId": 7}):
                with HostEditor(proxy.port) as editor:
                    answer = editor.answer(editor.begin(**shown, **process))
                    assert answer["success"] is False
                    words = ("another user of this machine", "does not know the token")
                    assert any(each in answer["message"] for each in words), answer
    assert "right-token" not in "".join(heard)
    assert '"attach"' not in "".join(heard)


#: A uid with no entry in passwd, as the owner of a mounted workspace often has none in a container.
OWNER = 1_000_000 + os.getpid()
#: A program that says where its home and its session are.
TELLS = "import os; print(os.environ['HOME'], os.environ.get('DKDBG_SESSION_DIR', '-'), os.getuid())\n"


@pytest.fixture
def shared(layout):
    """A folder that every user may look into, with the agent and a workspace of OWNER's."""
    root = Path(tempfile.mkdtemp(prefix="attack-", dir="/var/tmp"))
    root.chmod(0o755)
    shutil.copy(layout / "agent.pyz", root / "agent.pyz")
    (root / "work").mkdir()
    (root / "work" / "train.py").write_text(TELLS)
    os.chown(root / "work", OWNER, OWNER)
    yield root
    # What an agent has started may still be taking away its own.
    shutil.rmtree(root, ignore_errors=True)
    for base in ("/tmp", "/var/tmp"):
        for path in Path(base).glob(f"dkdbg-*{OWNER}*"):
            shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def taken(other_user, shared):  # noqa: ARG001 - which removes it
    """`taken(NAME)` lets the other user make that folder in /tmp before us, open to everybody."""

    def take(name):
        made = Path("/tmp") / name
        other_user.run(["mkdir", "-m", "0777", str(made)])
        assert made.stat().st_uid == other_user.uid
        return made

    return take


def launched(shared: Path, other_user, **env: str) -> subprocess.CompletedProcess[str]:
    """Launch the program as root in OWNER's workspace: the agent becomes OWNER."""
    return subprocess.run(
        ["sh", str(shared / "agent.pyz"), "launch", "--port", "0", "--", other_user.interpreter(), "train.py"],
        cwd=shared / "work",
        env={"PATH": "/usr/bin:/bin", "HOME": "/root", "DKDBG_OWNER": str(shared / "work")}
        | {"DKDBG_PYTHON": other_user.interpreter()}
        | env,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def is_private(path: Path, uid: int) -> bool:
    info = path.lstat()
    return stat.S_ISDIR(info.st_mode) and info.st_uid == uid and stat.S_IMODE(info.st_mode) == 0o700


@pytest.mark.attack(16)
def test_a_home_that_was_made_beforehand_is_not_taken(shared, other_user, taken):
    """Makes the HOME that the agent gives to a user without one, to put a .bashrc there: another one is taken."""
    trap = taken(f"dkdbg-home-{OWNER}")
    runtime = shared / "run"
    runtime.mkdir(mode=0o700)
    os.chown(runtime, OWNER, OWNER)
    done = launched(shared, other_user, DKDBG_RUNTIME_DIR=str(runtime))
    home, _, uid = done.stdout.split()
    assert int(uid) == OWNER
    assert Path(home) != trap
    assert is_private(Path(home), OWNER)
    again = launched(shared, other_user, DKDBG_RUNTIME_DIR=str(runtime))
    assert again.stdout.split()[0] == home  # caches stay


@pytest.mark.attack(16)
def test_a_runtime_folder_that_was_made_beforehand_is_not_taken(shared, other_user, taken):
    """Makes the runtime folder, with a debugpy of his in it: the program runs without, and the way to use another is said."""
    trap = taken(f"dkdbg-{OWNER}")
    other_user.python(
        "import os, sys; os.makedirs(sys.argv[1]); open(sys.argv[1] + '/__init__.py', 'w').write('raise SystemExit(66)')",
        str(trap / "debugpy-1.8.99" / "debugpy"),
    )
    done = launched(shared, other_user)
    assert (done.returncode, done.stdout.split()[1:]) == (0, ["-", str(OWNER)]), done.stderr
    assert f"belongs to uid {other_user.uid}" in done.stderr
    assert "set DKDBG_RUNTIME_DIR to a folder that you own" in done.stderr
    assert [path.name for path in trap.iterdir()] == ["debugpy-1.8.99"]
    runtime = shared / "run"
    runtime.mkdir(mode=0o700)
    os.chown(runtime, OWNER, OWNER)
    done = launched(shared, other_user, DKDBG_RUNTIME_DIR=str(runtime))
    assert done.returncode == 0, done.stderr


@pytest.mark.attack(16)
@pytest.mark.parametrize("way", ["left in it", "exchanged"])
def test_a_runtime_folder_that_others_could_write_to_is_not_taken(shared, other_user, way):
    """Leaves a debugpy in a runtime folder that was open to everybody, or exchanges one in such a folder: another one is taken."""
    opened = runtime = shared / "run"
    opened.mkdir()
    opened.chmod(0o777)
    if way == "left in it":
        os.chown(opened, OWNER, OWNER)
        other_user.run(["mkdir", str(opened / "debugpy-1.8.99")])
    else:
        runtime = opened / "run"
    done = launched(shared, other_user, DKDBG_RUNTIME_DIR=str(runtime))
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.split()[1]).parent
    assert opened not in (folder, folder.parent)
    assert is_private(folder, OWNER)


#: Name of an agent that was brought.
KEPT = f"agent-{'f' * 32}.pyz"


@pytest.mark.attack(0)
@pytest.mark.parametrize("look", ["ssh", "batch"])
@pytest.mark.parametrize("way", ["link to a file", "link to a folder", "open folder"])
def test_an_agent_that_another_user_could_exchange_is_not_run(shared, other_user, look, way):
    """Makes the runtime folder at a host of ssh or of a job, with a link to a file of the user's, or as a link to his folder, to
    put another program there when he has looked: the path is not taken."""
    shared.chmod(0o777)
    mine, folder = shared / "mine", shared / "run"
    mine.mkdir(mode=0o700)
    (mine / KEPT).touch()
    os.chown(mine, OWNER, OWNER)
    os.chown(mine / KEPT, OWNER, OWNER)
    assert paths_seen(look, mine) == [str(mine / KEPT)]
    if way == "link to a file":
        made = other_user.run(
            ["sh", "-c", 'mkdir "$1" && ln -s "$2" "$1"', "sh", str(folder), str(mine / KEPT)]
        )
    elif way == "link to a folder":
        made = other_user.run(["ln", "-s", str(mine), str(folder)])
    else:
        mine.chmod(0o777)
        made, folder = other_user.run(["touch", str(mine / "here")]), mine
    assert made.returncode == 0, made.stderr
    assert paths_seen(look, folder) == []


@pytest.mark.attack(0)
@pytest.mark.parametrize("look", ["ssh", "batch"])
def test_the_agent_of_a_program_is_run_by_no_name_that_another_user_could_change(shared, other_user, look):
    """Makes a link to the user's folder, by which the user starts a program: the agent is known by the folder itself."""
    shared.chmod(0o777)
    mine, link = shared / "mine", shared / "link"
    mine.mkdir(mode=0o700)
    (mine / KEPT).touch()
    for each in (mine, mine / KEPT):
        os.chown(each, OWNER, OWNER)
    assert other_user.run(["ln", "-s", str(mine), str(link)]).returncode == 0
    waits = ["sh", "-c", "echo; read answer", str(link / KEPT)]
    with subprocess.Popen(
        waits,
        user=OWNER,
        group=OWNER,
        extra_groups=[],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout.readline()
        found = paths_seen(look, shared / "none")
        running.stdin.close()
    assert found == [str(mine / KEPT)]


def paths_seen(look: str, folder: Path) -> list[str]:
    """The paths that the query of a host by ssh, or of a job's node, prints as OWNER with this runtime folder."""
    text = job_line.node_script("mark")
    if look == "ssh":
        text = target._PROBE_SCRIPT.format(marker="mark", folder="/", listing=brought.LISTING)
    done = subprocess.run(
        ["sh", "-c", text], user=OWNER, group=OWNER, extra_groups=[], capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"], "DKDBG_RUNTIME_DIR": str(folder)}, cwd="/",
    )  # fmt: skip
    return [each for each in done.stdout.splitlines() if each.endswith(KEPT)]


#: Locks /tmp, and all in it that he may open, until he is told to end.
LOCKS = """
import fcntl, glob, os, sys
held = []
for path in ["/tmp", *glob.glob("/tmp/dkdbg-*")]:
    try:
        held.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.attack(0)
def test_a_lock_that_others_hold_in_tmp_is_not_waited_for(tmp_path, other_user):
    """Locks /tmp and what he can open there: a program that its environment brings under the debugger does not wait."""
    opens = "from dkdbg.agent.autostart import job; job._LOCK_TIMEOUT_S = float('inf'); print(job._open_runtime())"
    command, env = [sys.executable, "-c", opens], {**os.environ, "DKDBG_RUNTIME_DIR": str(tmp_path / "run")}
    subprocess.run(command, env=env, check=True, timeout=300)  # what it leaves is there before he comes
    with other_user.begun(LOCKS) as thief:
        assert thief.stdout.readline() == "held\n"
        done = subprocess.run(command, env=env, check=True, timeout=60, stdout=subprocess.PIPE, text=True)
    assert done.stdout.strip() == str(tmp_path / "run")


@pytest.mark.attack(16)
@pytest.mark.parametrize("way", ["folder", "PATH", "pyvenv.cfg", "VIRTUAL_ENV", "command"])
def test_root_runs_no_python_of_another_user_in_the_working_folder(shared, other_user, way):
    """Puts a .venv/bin/python into the folder where root starts the agent, or into its command: it is not run, and named."""
    work, ran = shared / "work", shared / "ran"
    shared.chmod(0o777)  # where the trap would say that it was run
    work.chmod(0o777)
    trap = f'#!/bin/sh\ntouch {ran}\nexec {other_user.interpreter()} "$@"\n'
    code = (
        "import os, sys; os.umask(0o022); os.makedirs('.venv/bin')\n"
        "open('.venv/bin/python', 'w').write(sys.argv[1]); os.chmod('.venv/bin/python', 0o755)\n"
        "os.symlink('python', '.venv/bin/python3')\n"
    )
    if way == "pyvenv.cfg":  # the system's Python, with a standard library of his
        code = (
            "import os, shutil, sys\nos.umask(0o022); os.makedirs('.venv/bin')\nos.symlink(sys.executable, '.venv/bin/python')\n"
            "name = 'python%d.%d' % sys.version_info[:2]\n"
            "shutil.copytree('/usr/lib/' + name + '/encodings', 'evil/lib/' + name + '/encodings')\n"
            "open('evil/lib/' + name + '/os.py', 'w').write('')\n"
            "open('evil/lib/' + name + '/encodings/__init__.py', 'a').write('\\nimport posix\\nposix.mkdir(%r)\\n' % sys.argv[2])\n"
            "open('.venv/pyvenv.cfg', 'w').write('home = %s/evil/bin\\n' % os.getcwd())\n"
        )  # fmt: skip
    done = other_user.run(
        [other_user.interpreter(), "-c", f"import os; os.chdir({str(work)!r})\n{code}", trap, str(ran)]
    )
    assert done.returncode == 0, done.stderr
    tools = shared / "bin"  # no Python in PATH
    tools.mkdir()
    for tool in ("sh", "ls", "id", "env", "touch", "cat"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    path = f"{work / '.venv/bin'}:{tools}" if way == "PATH" else str(tools)
    environment = {"PATH": path, "DKDBG_RUNTIME_DIR": str(shared / "run")}
    environment |= {"VIRTUAL_ENV": str(work / ".venv")} if way == "VIRTUAL_ENV" else {}
    health = ["sh", str(shared / "agent.pyz"), "health"]
    if way == "command":
        health[2:] = ["ps", "--", str(work / ".venv/bin/python")]
    subprocess.run(
        health,
        cwd="/" if way == "command" else work,
        env=environment,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert not ran.exists()
    if way == "folder":
        environment["DKDBG_PYTHON"] = str(work / ".venv/bin/python")  # who trusts him says so
        subprocess.run(health, cwd=work, env=environment, capture_output=True, timeout=300, check=False)
        assert ran.exists()


@pytest.mark.engine
@pytest.mark.attack(16)
def test_the_output_of_a_dev_container_is_in_no_file_that_others_foresee(base_image, layout, tmp_path):
    """Makes the file for a program's output in a dev container before F5, to read or to block it: it is another one."""
    shutil.copytree(Path(__file__).parents[1] / "golden/projects/script/expected/.dkdbg", tmp_path / ".dkdbg")
    (tmp_path / "train.py").write_text("print('a secret', flush=True)\nimport time\ntime.sleep(600)\n")
    script = (
        "useradd mallory && su mallory -c 'umask 0; : >/tmp/dkdbg-output.log' || exit 9\n"
        "ln -s $(command -v python3) /usr/local/bin/python\n"
        "sh .dkdbg/up.sh || exit 8\n"
        "for n in $(seq 1000); do grep -qs secret /tmp/dkdbg-output.?????? && break; sleep 0.1; done\n"
        "echo seen: $(cat /tmp/dkdbg-output.log)\nstat -c 'mode: %a' /tmp/dkdbg-output.??????\n"
        "cat /tmp/dkdbg-output.??????\n"
    )
    done = subprocess.run(
        ["docker", "run", "--rm", "-i", "-v", f"{tmp_path}:/w", "-v", f"{layout}:/opt/dkdbg:ro", "-w", "/w",
         "-e", "DKDBG_MAPPINGS=[]", base_image, "sh"],
        input=script, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seen:\n" in done.stdout
    assert "mode: 600\n" in done.stdout
    assert "a secret\n" in done.stdout


#: A session as its record has it, which is not ours.
RECORD = """
import json, os, sys
os.umask(0o022)
os.makedirs("/tmp/dkdbg-0/trap-1/p")
fields = dict.fromkeys(("pid_start", "expires", "exit_code", "child"))
fields.update(version=1, id="trap-1", name="trap", pid=1, pid_namespace=os.readlink("/proc/self/ns/pid"), host="h",
              port=1, state="running", detail="come in", started=1.0, processes=[], argv=[])
json.dump(fields, open("/tmp/dkdbg-0/trap-1/session.json", "w"))
"""


@pytest.mark.attack(16)
def test_root_reads_no_sessions_from_a_folder_of_another_user(shared, other_user):
    """Makes root's runtime folder with a session of his in it, for root's `dkdbg pdb` to connect to: it is not listed."""
    script = (
        'mount -t tmpfs -o mode=1777 tmpfs /tmp || exit 77; setpriv --reuid "$1" --clear-groups "$2" -c "$3" || exit 9\n'
        'test -e /tmp/dkdbg-0/trap-1/session.json || exit 8; sh "$4" sessions; sh "$4" pdb'
    )
    words = [str(other_user.uid), other_user.interpreter(), RECORD, str(shared / "agent.pyz")]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *words],
        env={"PATH": os.environ["PATH"], "DKDBG_PYTHON": other_user.interpreter()},
        capture_output=True, text=True, timeout=300, check=False, cwd="/",
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this machine lets nobody mount")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "no session is running here" in done.stderr


@pytest.mark.attack(0)
def test_without_a_token_loopback_is_not_open_to_every_user(launch, other_user):
    """Attaches to the listener of an agent without a token: refused by his uid, with the way to let him in."""
    running = launch("sleep", "600")
    port = running.wait_state("running")["port"]
    said = other_user.python(CLIENT, str(port)).stdout
    assert "kept out" in said
    assert "DKDBG_TOKEN" in said
    assert "processes" not in json.loads(other_user.python(STATUS, str(port)).stdout)
    with Editor(port, {}) as editor:  # root may
        editor.wait_attached(1)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
        assert "processes" in json.load(answer)
    for way in ({"DKDBG_ALLOW": "any"}, {"DKDBG_TOKEN": "right-token"}):  # the hint, followed
        running = launch("sleep", "600", env=way)
        port = running.wait_state("running")["port"]
        token = way.get("DKDBG_TOKEN", "")
        assert "let in" in other_user.python(CLIENT.replace("TOKEN", token), str(port)).stdout


@contextlib.contextmanager
def still(pid):
    """Stop a process meanwhile: whatever its listener does, it does afterwards."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: thread_states(pid), lambda states: set(states) == {"T"})
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def blind(other_user, ending, port, **arguments):
    done = other_user.python(BLIND.replace("ENDING", ending), str(port), json.dumps(arguments))
    assert done.stdout == "sent\n", done.stderr


gone = pytest.mark.parametrize("ending", ["sock.close()", "reset(sock)", "fill(sock)"])


@pytest.mark.attack(0)
@gone
def test_who_is_gone_before_he_is_looked_at_does_nothing(launch, other_user, tmp_path, ending):
    """Sends all of an attack at once and is gone before the kernel can say who he was, also with so much data that the agent does not hear that he is gone: nothing of it is done."""
    script = tmp_path / "train.py"
    script.write_text("import time\nwhile True:\n    time.sleep(0.02)\n")
    running = launch(sys.executable, "train.py")
    record = running.wait_state("running")
    adapter = wait_for(lambda: children(record["pid"], "adapter.py"), bool)
    with still(record["pid"]):
        blind(other_user, ending, record["port"], dkdbgRole="take-over")
    with Editor(record["port"], {str(script): [3]}) as editor:
        editor.wait_stops(1)
    assert editor.errors == []
    assert children(record["pid"], "adapter.py") == adapter
    assert running.record()["state"] in ("attached", "running")


@pytest.mark.attack(0)
@gone
def test_who_is_gone_before_he_is_looked_at_comes_through_no_relay(
    far,  # noqa: F811
    relay,  # noqa: F811
    other_user,
    monkeypatch,
    ending,
):
    """The same at the port of a relay (`dkdbg attach ssh://...`, `forward`): nothing arrives over there."""
    sent, look = threading.Event(), local_users.refusal
    monkeypatch.setattr(local_users, "refusal", lambda *args: (sent.wait(300), look(*args))[1])
    port = relay.listen(far.port)
    blind(other_user, ending, port)
    sent.set()
    with connect(relay, far.port) as mine:
        mine.sendall(b"mine")
        assert far.accept().recv(100) == b"mine"


@pytest.mark.attack(0)
@gone
def test_who_is_gone_before_he_is_looked_at_gets_no_worker_of_ray(stand_in, other_user, tmp_path, ending):  # noqa: F811
    """The same at the port of the proxy for a cluster's workers: none is connected to."""
    number = worker_registry._FIRST_NUMBER + 1
    with socket.create_server(("127.0.0.1", 0)) as worker:
        words = [
            "ray",
            "proxy",
            "--dashboard",
            f"127.0.0.1:{stand_in(listing(worker.getsockname()[1])).port}",
        ]
        said = must(command([sys.executable, "-m", "dkdbg.agent", *words])).stdout
        proxy = json.loads(said)
        path = tmp_path / "run/ray" / proxy["id"] / "session.json"
        record = wait_for(lambda: json.loads(path.read_text()), lambda each: each["processes"])
        with still(record["pid"]):
            blind(other_user, ending, proxy["port"], subProcessId=number)
        with HostEditor(proxy["port"]) as mine:
            attach = mine.begin(subProcessId=number)
            worker.settimeout(60)
            worker.accept()[0].close()
            assert "it has closed the connection" in mine.answer(attach)["message"]
            worker.setblocking(False)
            with pytest.raises(BlockingIOError):
                worker.accept()


#: A dashboard that asks for Ray's token, and prints what it is told.
DASHBOARD = """
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        client, _ = server.accept()
        print(client.recv(4096), flush=True)
        client.sendall(b"HTTP/1.1 401 Unauthorized\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
        client.close()
"""


@pytest.mark.attack(0)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_rays_token_is_told_to_no_dashboard_of_another_user(other_user, monkeypatch, host):
    """Listens where the dashboard of a Ray cluster is looked for, and asks for Ray's token: he does not get it."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", "right-token")
    with other_user.begun(DASHBOARD) as fake:
        port = int(fake.stdout.readline())
        with pytest.raises(dashboard.DashboardError, match="is neither yours nor root's"):
            dashboard.reached([host], port)
        fake.kill()
        assert "right-token" not in fake.stdout.read()


@pytest.mark.attack(0)
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_the_address_of_a_cluster_is_read_from_no_file_of_another_user(
    other_user, monkeypatch, tmp_path, whose
):
    """Writes the file with the address of the node's Ray cluster, or has its folder: it is not read."""
    path = tmp_path / "ray" / "ray_current_cluster"
    path.parent.mkdir()
    path.write_text("192.0.2.1:6379\n")
    monkeypatch.setattr(dashboard, "_ADDRESS_FILE", str(path))
    assert "192.0.2.1" in dashboard.hosts()
    os.chown(path if whose == "file" else path.parent, other_user.uid, -1)
    assert "192.0.2.1" not in dashboard.hosts()


@pytest.mark.attack(15)
def test_wrong_tokens_and_silent_connections_on_loopback_keep_nobody_out(launch, other_user):
    """Holds 300 connections open in silence and shows thirty wrong tokens, from the address that the user has too: /healthz answers
    at once, and the right token gets in."""
    running = launch("sleep", "600", env={"DKDBG_TOKEN": "right-token"})
    port = running.wait_state("running")["port"]
    began = time.monotonic()
    with other_user.begun(HOLDS, str(port), "300", "300") as silent:
        assert silent.stdout.readline() == "300 open\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=300) as answer:
            assert json.load(answer)["state"] == "running"
        assert other_user.python(GUESSES, str(port), timeout=300).stdout == "30 wrong\n"
        with Editor(port, {}, token="right-token") as editor:
            editor.wait_attached(1)
    running.process.terminate()
    # After the first ten, one line in ten seconds.
    assert running.finish()[2].count("refused") <= 11 + (time.monotonic() - began) // 10


@pytest.mark.attack(16)
def test_a_user_to_whom_the_program_changes_leads_the_agent_nowhere(shared, other_user):
    """Is let in as a user that the program changes to, and leaves links, pipes and foreign pids: none is followed or believed."""
    store = records.SessionStore(str(shared), "attacked")
    store.open_for_users()
    store.let_in(other_user.uid, other_user.gid)
    store.create(records.first_record(session_id=store.id, name="x", host="h", port=1, debugpy="1", argv=[]))
    table = processes.ProcessTable(
        store.folders,
        attached=lambda: False,
        on_change=lambda _: None,
        on_refusal=lambda _: None,
    )
    precious = shared / "precious"
    precious.write_text("stays\n")
    plant = (
        "import json, os, subprocess, sys; place, ours, precious = sys.argv[1:]; os.chdir(place + '/p')\n"
        "sleeps = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)\n"
        "said = {'ppid': 1, 'argv': ['x'], 'started': 1.0, 'env': {}}\n"
        "open(ours + '.json', 'w').write(json.dumps({**said, 'pid': int(ours)}))\n"
        "os.mkfifo('%d.json' % sleeps.pid); os.mkfifo('%d.note' % sleeps.pid)\n"
        "os.symlink(precious, '%d.no-editor' % sleeps.pid)\n"
        "for path in (place + '/join.json', place + '/x', place + '/../x', place + '/../../session.json'):\n"
        "    try: open(path, 'a'); print('wrote', path)\n"
        "    except PermissionError: pass\n"
        "try: open(place + '/../../session.json').read(); print('read the record')\n"
        "except PermissionError: pass\n"
        "print(sleeps.pid)\n"
    )
    place = str(Path(store.users[other_user.uid]).parent)
    done = other_user.python(plant, place, str(os.getpid()), str(precious))
    assert done.returncode == 0, done.stderr
    pid = int(done.stdout)  # nothing was written or read
    try:
        assert table.announced() == [pid]
        assert table.name_of(pid) == f"process {pid}"
        table.release(pid)
        table._scan()
        assert precious.read_text() == "stays\n"
    finally:
        os.kill(pid, signal.SIGKILL)
        store.finish()


@pytest.mark.attack(0)
def test_a_user_to_whom_the_program_changes_moves_no_clock(shared, other_user):
    """Is let in as a user that the program changes to, and writes what the clocks of all processes go by: it cannot."""
    store = records.SessionStore(str(shared), "timed")
    store.open_for_users()
    held_time.Writer(store.directory).hold()
    adapter = Path(store.processes_dir, "adapter")
    adapter.touch()
    store.open_for_joining(
        {"adapter": str(adapter), "token": "", "ppid": 1, "search": [], "runtime": "", "deadline": 1.0}
    )
    store.let_in(other_user.uid, other_user.gid)
    place = Path(store.users[other_user.uid]).parent
    before = Path(store.directory, contract.HELD_NAME).read_bytes()
    program = (
        "import os, sys; path = sys.argv[1]; print(len(open(path, 'rb').read()))\n"
        "for attack in (lambda: open(path, 'r+b'), lambda: os.unlink(path), lambda: os.rename(path, path + 'x'),\n"
        "               lambda: os.chmod(path, 0o666), lambda: os.symlink('/dev/zero', path + '2')):\n"
        "    try: attack(); print('worked')\n"
        "    except PermissionError: pass\n"
    )
    done = other_user.python(program, str(place / contract.HELD_NAME))
    store.finish()
    assert (done.stdout, before) == (f"{len(before)}\n", before), done.stderr


@pytest.mark.attack(0)
@pytest.mark.parametrize("kind", ["named pipe", "link", "not UTF-8", "escape sequences without end"])
def test_a_reason_that_a_lower_user_leaves_says_one_line_or_nothing(tmp_path, kind):
    """Leaves a named pipe, a link to a secret, bytes or escape sequences as his process's reason: one short printable line, or none."""
    file = tmp_path / f"{os.getpid()}.failed"
    (tmp_path / "secret").write_text("the-secret")
    if kind == "named pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(tmp_path / "secret")
    else:
        file.write_bytes(b"\xff\xfe" if kind == "not UTF-8" else b"\x1b]0;title\x07\n" * 100_000)
    check = hook_check.HookCheck(announced.Folders(str(tmp_path), {}))
    said = check._refused([os.getpid()])
    assert len("".join(said)) < 2000
    assert "".join(said).isprintable()
    assert "the-secret" not in "".join(said)
