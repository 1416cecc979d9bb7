"""Pages of the documentation, read so that tests run what they say: a command on a page that no test runs is a failure.

A page is Markdown. Its commands stand in blocks marked `console`, each on a line that begins with `$ `; a line that ends
with a backslash goes on. Other lines there are what is printed. Blocks marked otherwise (`json`, `toml`, `sh`) hold
files, or what was done by hand, and are never run by themselves.

    page = Page.of("recipes/two-ssh-hops.md")
    with page.all_run():
        must(page.run("dkdbg ps", cwd=root))
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import commands

DOCS = Path(__file__).resolve().parents[1] / "docs"
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(kw_only=True)
class Page:
    """One page.

    Attributes:
        path: of the file.
        text: all of it.
        commands: in their order; words of a shell's command line.
        taken: how many of them a test has taken, by number.
    """

    path: Path
    text: str
    commands: tuple[str, ...]
    taken: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, name: str) -> "Page":
        """The page with this path below docs/."""
        path = DOCS / name
        return cls.read(path, path.read_text())

    @classmethod
    def read(cls, path: Path, text: str) -> "Page":
        found = []
        for language, block in blocks(text):
            if language == "console":
                lines = re.sub(r"\\\n\s*", "", block).splitlines()
                found += [line.removeprefix("$ ").strip() for line in lines if line.startswith("$ ")]
        return cls(path=path, text=text, commands=tuple(found))

    def take(self, beginning: str) -> str:
        """The first command that begins so and was not taken yet; it counts as run from now on."""
        for number, command in enumerate(self.commands):
            if number not in self.taken and command.startswith(beginning):
                self.taken.add(number)
                return command
        raise AssertionError(f"{self.path.name} has no further command {beginning!r}: {self.commands}")

    def run(
        self, beginning: str, *, cwd: Path, env: Mapping[str, str] | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Take a command and run it to its end, as a shell does, with this checkout's `dkdbg`."""
        words = ["sh", "-c", self.take(beginning)]
        return commands.command(words, cwd, env=environment(env), text=stdin, check=False)

    def words(self, beginning: str) -> list[str]:
        """Take a command that runs on, as an argv: the shell becomes it, and gets the signals that are meant for it."""
        return ["sh", "-c", "exec " + self.take(beginning)]

    def block(self, language: str, holding: str = "") -> str:
        """The only block in this language that has this text in it."""
        found = [text for each, text in blocks(self.text) if each == language and holding in text]
        assert len(found) == 1, (language, holding, found)
        return found[0]

    def json(self, holding: str = "") -> Any:
        return json.loads(self.block("json", holding))

    @contextmanager
    def all_run(self, *, elsewhere: tuple[str, ...] = ()) -> Iterator[None]:
        """At the end each command of the page has been taken, but those that begin so: another test runs them."""
        yield
        commands = enumerate(self.commands)
        left = [
            each for number, each in commands if number not in self.taken and not each.startswith(elsewhere)
        ]
        assert not left, f"nothing runs these commands of {self.path.name}: {left}"


@contextmanager
def begun(words: list[str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that runs on, both outputs in one, and ends with Ctrl-C."""
    command = subprocess.Popen(
        words, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    with interrupted(command):
        yield command


@contextmanager
def interrupted(running: subprocess.Popen[Any]) -> Iterator[None]:
    """At the end it gets a Ctrl-C if it still runs, its output is read to the end, and nothing of it stays."""
    try:
        yield
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
        try:
            running.communicate(timeout=300)
        finally:
            running.kill()
            running.wait()


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of a shell in which `dkdbg` is this checkout's."""
    env = {**os.environ, **(more or {})}
    return {**env, "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}


def blocks(text: str) -> list[tuple[str, str]]:
    """Each block of a page's text: its language and what stands in it."""
    return [
        (language, re.sub(f"^{indent}", "", block, flags=re.MULTILINE))
        for indent, language, block in _BLOCK.findall(text)
    ]
