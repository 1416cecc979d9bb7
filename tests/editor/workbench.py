"""VS Code's window, driven by keyboard and mouse; what it shows is read from its page."""

import contextlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

import playwright.sync_api
from playwright.sync_api import Page

from tests.editor.code_server import CodeServer
from tests.editor.trace import Trace

T = TypeVar("T")

#: Seconds that a loaded machine may take for anything.
TIMEOUT_S = 300.0


class Workbench:
    """A folder opened in VS Code."""

    def __init__(self, page: Page, server: CodeServer, folder: Path) -> None:
        self.page, self.server, self.folder = page, server, folder
        self.trace = Trace(server.trace)
        self.stops = 0

    def open(self, file: str, line: int = 1) -> None:
        """Open the window, with the cursor on a line of this Python file of the folder."""
        target = f"vscode-remote://127.0.0.1:{self.server.port}{self.folder / file}:{line}:1"
        payload = json.dumps([["openFile", target], ["gotoLineMode", "true"]])
        self.page.goto(f"{self.server.url}/?{urlencode({'folder': self.folder, 'payload': payload})}")
        self.page.locator("input[name=password]").fill(self.server.password)
        self.page.keyboard.press("Enter")
        status = self.page.locator(".statusbar")
        status.filter(has_text=f"Ln {line}, ").filter(has_text="Python").wait_for()
        self.until("the extension runs", lambda: self.trace.lines("ready"))

    def until(self, what: str, look: Callable[[], T], seconds: float = TIMEOUT_S) -> T:
        """What `look` returns as soon as it is true; fails with `what` after so many seconds."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            assert time.monotonic() < deadline, (
                f"{seconds} s waited until {what}; the editor shows:\n{self.shown()}"
            )
            self.page.wait_for_timeout(50)  # lets the browser's events in
        return found

    # What a person does.

    def toggle_breakpoint(self) -> None:
        """F9 on the line of the cursor."""
        before = len(self.trace.lines("breakpoints"))
        self.press("F9")
        self.until("the breakpoint is set", lambda: len(self.trace.lines("breakpoints")) > before)

    def press(self, key: str) -> float:
        """Press a key with the file's editor in focus; returns when, in seconds since the epoch."""
        self.page.locator(".editor-instance .monaco-editor").first.focus()
        now = time.time()
        self.page.keyboard.press(key)
        return now

    def start(self, name: str) -> None:
        """Pick a launch configuration by its name, which starts it."""
        self.press("Control+p")
        box = self.page.locator(".quick-input-widget input[type=text]")
        box.fill(f"debug {name}")
        self.page.locator(".quick-input-list .monaco-list-row", has_text=name).first.wait_for()
        box.press("Enter")

    def go_to(self, line: int) -> None:
        """Put the cursor on a line of the file."""
        self.press("Control+g")
        self.page.locator(".quick-input-widget input[type=text]").fill(f":{line}")
        self.page.keyboard.press("Enter")
        self.page.locator(".statusbar").filter(has_text=f"Ln {line}, ").wait_for()

    def insert_above(self, line: str, new: str) -> None:
        """Type a new line above the line that contains `line`, as deep as that one, and save the file."""
        self.page.locator(".editor-instance .view-line", has_text=line).first.click()
        self.page.keyboard.press("Home")
        self.page.keyboard.insert_text(new)
        self.page.keyboard.press("Escape")  # a suggestion, if there is one
        self.page.keyboard.press("Enter")
        self.page.keyboard.press("Control+s")
        self.page.locator(".tab.active.dirty").wait_for(state="detached")

    def end_sessions(self) -> None:
        """Shift+F5, once, after which the editor has left the program."""
        self.press("Shift+F5")
        self.until("the sessions have ended", lambda: not self.trace.sessions())

    # What it shows.

    def stops_at(self, file: str, line: int, **variables: str) -> None:
        """Wait for the next stop, until the editor shows it there, with these variables."""
        self.stops += 1
        self.until(f"stop {self.stops} comes", lambda: len(self.trace.messages("stopped")) >= self.stops)
        self.until(f"{file}:{line} is shown", lambda: self.top_frame() == (file, line))
        self.until(f"{variables} are shown", lambda: variables.items() <= self.local_variables().items())

    def marks_the_stopped_line(self) -> None:
        """Wait until a line of the file is marked as the one where the program is stopped."""
        self.page.locator(".debug-top-stack-frame-line").first.wait_for()

    def top_frame(self) -> tuple[str, int]:
        """File name and line of the first frame in the Call Stack pane; a program that runs has none: ("", 0)."""
        frame = self.page.locator(".debug-call-stack .stack-frame").first
        # As the page holds it: what stands on a line of its own, and what beside, depends on the layout of the moment.
        name = "".join(frame.locator(".file-name").all_text_contents())
        position = "".join(frame.locator(".line-number").all_text_contents())
        return name, int(position.partition(":")[0] or 0)

    def seconds_to_stop(self, since: float) -> float:
        """From `since`, in seconds since the epoch, to the latest stop."""
        return round(self.trace.messages("stopped")[-1]["time"] - since, 2)

    def local_variables(self) -> dict[str, str]:
        """Names and values below Locals in the Variables pane; empty while they are not there."""
        pane = self.page.locator(".debug-variables")
        folded = pane.locator("[aria-expanded=false]", has_text="Locals")
        if (
            folded.count()
        ):  # VS Code unfolds it by itself, most times, and then there is nothing left to click on
            with contextlib.suppress(playwright.sync_api.TimeoutError):
                folded.first.click(timeout=5000)
        texts = pane.locator(".expression").all_inner_texts()
        pairs = (text.partition("=") for text in texts)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def asks(self, question: str) -> None:
        """Wait for a dialog with this text."""
        self.page.locator(".monaco-dialog-box", has_text=question).wait_for()

    def dismiss(self) -> None:
        """Escape from the dialog."""
        self.page.keyboard.press("Escape")
        self.page.locator(".monaco-dialog-box").wait_for(state="detached")

    def is_told(self, pattern: str) -> None:
        """Wait for a notification that fits the pattern."""
        self.page.locator(".notification-toast", has_text=re.compile(pattern)).wait_for()

    def console_shows(self, text: str) -> None:
        """Wait until this text stands in the Debug Console."""
        rows = self.page.locator(".repl .monaco-list-row")
        self.until(f"the Debug Console shows {text!r}", lambda: text in "\n".join(rows.all_inner_texts()))

    def terminal_shows(self, pattern: str) -> None:
        """Wait until the terminal shows what fits the pattern, lines that are too wide for it put together again."""
        rows = self.page.locator(".terminal-wrapper.active .xterm-rows > div")

        def look() -> bool:
            return (
                re.search(pattern, "".join(row.replace("\xa0", " ") for row in rows.all_text_contents()))
                is not None
            )

        self.until(f"the terminal shows {pattern!r}", look)

    def shown(self) -> str:
        """All the text of the window."""
        return self.page.locator("body").inner_text()
