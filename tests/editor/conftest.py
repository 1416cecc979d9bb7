"""The editor for the tests: VS Code's workbench in a browser, on a repository that `dkdbg init` has prepared.

It is code-server, which is VS Code without Microsoft's extensions; `extension/` stands in for their Python Debugger. The
browser is driven by Playwright for Python: so a test is Python from end to end, and of Node's there is nothing but VS
Code itself.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.editor.code_server import serving
from tests.editor.install import Installed, installed
from tests.editor.workbench import TIMEOUT_S, Workbench
from tests.engine.projects import dkdbg, must, repo, take_away, unique
from tests.ports import free_port

#: Nothing of a page comes from elsewhere. Chromium's own sandbox does not start for root, nor in most containers.
CHROMIUM = ("--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Tell the fixtures whether the test has failed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def vscode() -> Installed:
    return installed()


@pytest.fixture(scope="module")
def browser(vscode: Installed) -> Iterator[Browser]:
    """Start a browser for the tests of one file: one that idles beside an hour of other tests takes their memory."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=vscode.browser, args=list(CHROMIUM))
        yield browser
        browser.close()


@pytest.fixture
def repository(tmp_path: Path, base_image: str) -> Iterator[Callable[..., Path]]:
    """Make a repository of these files and run `dkdbg init` there; its containers are taken away at the end."""
    env = {"DKDBG_BASE": base_image}
    with ExitStack() as made:

        def make(port: int = 0, **files: str) -> Path:
            settings = f"[debug]\nport = {port or free_port()}\n"
            root = repo(tmp_path / unique("editor"), {**files, "dkdbg.toml": settings})
            must(dkdbg(root, "init", "--yes"))
            made.callback(take_away, root, env)
            return root

        yield make


@pytest.fixture
def open_editor(
    vscode: Installed, browser: Browser, base_image: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Workbench]]:
    """Open a folder in a VS Code of its own, which knows nothing of earlier tests.

    When the test fails, a picture of each window stays in tmp_path, beside the trace of what was said.
    """
    with ExitStack() as opened:

        @contextmanager
        def window(folder: Path, name: str, env: dict[str, str]) -> Iterator[Workbench]:
            with serving(vscode, tmp_path / name, {"DKDBG_BASE": base_image, **env}) as server:
                page = browser.new_page(viewport={"width": 1500, "height": 1100})
                page.set_default_timeout(TIMEOUT_S * 1000)
                yield Workbench(page, server, folder)
                if request.node.stash.get(FAILED, True):
                    picture = tmp_path / name / "failed.png"
                    page.screenshot(path=picture)
                    print(f"a picture of the editor: {picture}, what it said: {server.trace}")  # noqa: T201
                page.context.close()

        def make(folder: Path, file: str, line: int = 1, **env: str) -> Workbench:
            number = len(list(tmp_path.glob("vscode-*")))
            workbench = opened.enter_context(window(folder, f"vscode-{number}", env))
            workbench.open(file, line)
            return workbench

        yield make
