"""Bringing the single file to a place: real processes here, with a `sh -c` as the place's stream."""

import hashlib
import io
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from dkdbg.agent.state import kept
from dkdbg.core.target import Executor
from dkdbg.delivery import bring as bringing
from dkdbg.delivery import single_file
from dkdbg.delivery.bring import bring
from dkdbg.errors import DkdbgError
from tests.agent.dap_probe import wait_for
from tests.pythons import need


@dataclass
class Here(Executor):
    """This machine as a place with a runtime folder of its own; `through` is what its stream passes."""

    runtime: Path
    through: str = 'exec "$@"'
    label: str = "here"
    python: str = sys.executable

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:  # noqa: ARG002
        settings = (f"DKDBG_RUNTIME_DIR={self.runtime}", f"DKDBG_PYTHON={self.python}")
        return ("env", *settings, "sh", "-c", self.through, "sh", *argv)

    def kept(self) -> list[str]:
        """What the runtime folder holds, but for the records of sessions and the link beside a file."""
        names = {path.name for path in self.runtime.glob("*")}
        names -= {name.replace(".pyz", ".python") for name in names if name.endswith(".pyz")}
        return sorted(name for name in names if name.startswith((".", "agent-")))


@pytest.fixture
def here(tmp_path):
    return Here(tmp_path / "run")


@pytest.fixture
def session(begin, here):
    launch = ("launch", "--port", "0", "--wait", "0", "--")
    return lambda brought, *words: begin(here.wrap((*brought.argv, *launch, *words)))


def test_it_is_sent_once_kept_privately_and_removed_by_the_last_though_a_login_shell_talks(here):
    here.through = 'echo "Welcome to node4!"; printf "no line end"; echo; exec "$@"'
    first = bring(here)
    second = bring(here)
    assert (first.sent, second.sent) == (True, False)
    (name,) = here.kept()
    assert (here.runtime / name).stat().st_mode & 0o777 == 0o600
    assert here.runtime.stat().st_mode & 0o777 == 0o700
    first.close()
    assert here.kept() == [name]
    second.close()
    assert here.kept() == []


def test_what_runs_the_file_later_finds_the_python_by_which_it_was_brought(here, tmp_path):
    """As on a node whose Pythons come by `module load`: none is on the PATH of `attach` and `ps`."""
    brought = bring(here)
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("sh", "readlink", "id"):
        (bare / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    # In an empty root of names: agent.sh looks into the usual folders too, which this machine has.
    text = Path(brought.argv[-1]).read_bytes()
    cut = text.index(b"PK\x03\x04")
    script = text[:cut].replace(b" /usr/local/bin/python3 /usr/bin/python3", b"")
    Path(brought.argv[-1]).write_bytes(script + text[cut:])
    done = subprocess.run(
        ["sh", brought.argv[-1], "ps"], env={"PATH": str(bare), "DKDBG_RUNTIME_DIR": str(here.runtime)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    brought.close()
    assert "no Python" not in done.stderr, done.stderr
    assert here.kept() == []


def test_the_python_that_the_command_names_receives_it_unless_another_is_asked_for(here):
    here.python = ""
    named = need(12)
    for python, receives in ((None, named), (sys.executable, sys.executable)):
        brought = bring(here, command=[named, "train.py"], python=python)
        link = Path(brought.argv[-1]).with_suffix(".python")
        assert link.resolve() == Path(receives).resolve()
        brought.close()


def test_a_link_beside_a_file_that_was_not_brought_leads_to_no_python(tmp_path):
    """A repository has `.dkdbg/agent.pyz`, and could bring `agent.python` that leads to a program of its own."""
    agent, evil = tmp_path / "agent.pyz", tmp_path / "evil"
    agent.write_bytes(single_file.build(sys.version_info[:2]))
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    evil.chmod(0o755)
    agent.with_suffix(".python").symlink_to(evil)
    subprocess.run(["sh", agent, "ps"], capture_output=True, check=False, timeout=300, cwd=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_program_runs_there_its_output_and_exit_code_are_its_own_and_it_does_not_see_how_it_is_found(
    here, session
):
    brought = bring(here)
    running = session(brought, "sh", "-c", 'echo "${DKDBG_RUN-unset}"; echo err >&2; exit 7')
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out) == (7, "unset\n")
    assert "err\n" in err
    brought.close()
    assert here.kept() == []


@pytest.mark.parametrize(
    "through",
    [
        'exec "$@"',
        """exec unshare --map-root-user --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$@\"""",
    ],
    ids=["with /proc", "without /proc, as on macOS"],
)
def test_a_signal_reaches_the_program_there_and_nobody_removes_the_file_before_its_session_ends(
    here, session, tmp_path, through
):
    here.through = through
    brought, second = bring(here), bring(here)
    loop = f"touch {tmp_path}/up; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    running = session(brought, "sh", "-c", f"trap 'touch {tmp_path}/heard' INT; {loop}")
    wait_for((tmp_path / "up").exists, bool)
    brought.signal(2)
    wait_for((tmp_path / "heard").exists, bool)
    for each in (brought, second):
        each.close()
    assert len(here.kept()) == 2  # the file, and what it was unpacked into
    (tmp_path / "go").touch()
    assert running.wait(300) == 0
    assert here.kept() == []


def test_hosts_that_bring_it_at_once_share_one_and_find_it_while_others_leave(here):
    def once(_):
        brought = bring(here)
        there = os.path.exists(brought.argv[-1])  # noqa: PTH110
        brought.close()
        return there

    with ThreadPoolExecutor(4) as pool:
        all_brought = list(pool.map(lambda _: bring(here), range(4)))
    assert len({each.argv[-1] for each in all_brought}) == 1
    assert len(here.kept()) == 1
    for each in all_brought:
        each.close()
    assert here.kept() == []
    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(once, range(9)))
    assert here.kept() == []


def test_a_file_that_another_host_has_brought_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    content = b"the single file"
    digest = hashlib.sha256(content).hexdigest()
    path = str(tmp_path / kept.name_of(digest))

    def arrives():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return kept._take(path, digest, len(content))

    assert arrives()
    first = kept.Hold(path)
    assert arrives()
    second = kept.Hold(path)
    second.release()
    assert Path(path).read_bytes() == content, "the first still holds it"
    first.release()
    assert not list(tmp_path.iterdir())


def replaced(here: Here, spoil: Callable[[Path], object]) -> None:
    """See that a file which was spoilt while nobody held it is sent anew."""
    first = bring(here)
    (name,) = here.kept()
    content = (here.runtime / name).read_bytes()
    first.close()
    spoil(here.runtime / name)
    second = bring(here)
    assert second.sent
    assert not (here.runtime / name).is_symlink()
    assert (here.runtime / name).read_bytes() == content
    assert (here.runtime / name).stat().st_uid == os.getuid()
    second.close()
    assert here.kept() == []


def test_what_lies_there_and_is_not_the_file_is_replaced_and_no_link_is_followed(here, tmp_path):
    for size in (0, 1000, 10_000_000):
        replaced(here, lambda path, size=size: path.write_bytes(b"x" * size))
    (tmp_path / "mine").write_text("precious")
    replaced(here, lambda path: path.symlink_to(tmp_path / "mine"))
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_somebody_else_has_laid_there_is_replaced_and_a_folder_is_refused_with_his_number(
    here, tmp_path
):
    def given_away(path):
        path.write_bytes(single_file.build(sys.version_info[:2]))
        os.chown(path, 12345, 12345)

    replaced(here, given_away)
    theirs = Here(tmp_path / "theirs")
    theirs.runtime.mkdir()
    os.chown(theirs.runtime, 12345, 12345)
    with pytest.raises(DkdbgError, match=r"belongs to uid 12345") as caught:
        bring(theirs)
    assert "DKDBG_RUNTIME_DIR" in caught.value.hint
    assert list(theirs.runtime.iterdir()) == []


def test_a_transfer_that_is_cut_off_leaves_nothing(here):
    relay = "import os\nfor _ in range(5000): os.write(1, os.read(0, 1))"
    here.through = f"{sys.executable} -c '{relay}' | \"$@\""
    with pytest.raises(DkdbgError, match=r"here .*(arrive|ended)"):
        bring(here)
    wait_for(lambda: here.kept() == [], bool)


@pytest.mark.parametrize(
    "through",
    [
        "yes garbage",
        "cat /dev/zero",
        'for last; do :; done; echo "$last python 3.11"',
        'for last; do :; done; echo "$last python [1, 2, 3]"',
        'for last; do :; done; echo "$last python {"',
        'for last; do :; done; echo "$last kept \\"/tmp/x\\""',
        'for last; do :; done; echo "$last python [3, 11]"; read -r digest size; echo "$last kept \\"/tmp/\\\\u001b[2J\\""; sleep 5',
        'for last; do :; done; echo "$last python [3, 11]"; read -r digest size; echo "$last kept 5"; sleep 5',
    ],
)
def test_garbage_from_a_hostile_place_ends_in_one_error(here, through):
    here.through = through
    with pytest.raises(DkdbgError, match="gave an unexpected answer") as caught:
        bring(here)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("limit", "through"),
    [
        ("HELLO_TIMEOUT_S", "exec 3>&1; sleep 60"), ("HELLO_TIMEOUT_S", "exec 3>&1; cat >/dev/null"),
        ("HELLO_TIMEOUT_S", "exec 3>&1; while :; do echo x >&2; sleep 0.05; done"),
        ("STALL_TIMEOUT_S", 'for last; do :; done; echo "$last python [3, 11]"; read -r line; echo "$last want null"; sleep 60'),
    ],
)  # fmt: skip
def test_a_place_that_never_answers_or_takes_no_more_bytes_is_given_up(here, limit, through, monkeypatch):
    monkeypatch.setattr(bringing, limit, 0.5)
    here.through = through
    with pytest.raises(DkdbgError, match="does not answer"):
        bring(here)


@pytest.mark.parametrize(
    ("through", "said"),
    [
        (r"printf '\033[2Jgone\n' >&2; exit 3", r"ended \(code 3\): \\x1b\[2Jgone"),
        ("echo 'exec: sh: not found' >&2; exit 127", r"cannot start anything on here: exec: sh: not found"),
    ],
)
def test_a_place_that_ends_is_told_with_its_last_words_which_do_nothing_to_the_terminal(here, through, said):
    here.through = through
    with pytest.raises(DkdbgError, match=said) as caught:
        bring(here)
    assert caught.value.message.isprintable()
    if "exit 127" in through:
        assert (caught.value.exit_code, "Python 3.8" in caught.value.hint) == (127, True)


def test_the_command_line_is_short_enough_for_the_url_that_kubectl_makes_of_it(here):
    """Proxies in front of an API server take a request line of 8 kB (nginx), and the rest of it has 1 kB at most."""
    seen: list[Sequence[str]] = []

    class Seeing(Here):
        def wrap(self, argv, *, tty=False):
            seen.append(argv)
            return super().wrap(argv, tty=tty)

    bring(Seeing(here.runtime)).close()
    assert len(urllib.parse.urlencode([("command", word) for word in seen[0]])) < 7000
