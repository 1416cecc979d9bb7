"""Takes the pictures of the documentation anew, from the real editor and browser: python -m tests.editor.pictures.

`docs/f5.png` is the window at a stop. `docs/f5.gif` is the way there, a frame at each thing that a person sees: it needs
Pillow, and is left alone without it. `docs/hang.png` is the page of a hang.
"""

import io
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.editor.code_server import serving
from tests.editor.conftest import CHROMIUM
from tests.editor.hang_page import of_eight
from tests.editor.install import installed
from tests.editor.workbench import TIMEOUT_S, Workbench
from tests.engine.projects import dkdbg, must, repo, take_away, unique
from tests.ports import free_port

DOCS = Path(__file__).resolve().parents[2] / "docs"
BASE = {"DKDBG_BASE": "dkdbg-test/python:3.11"}
TRAIN = '''\
    """Fits a line to three points, by gradient descent."""

    import time

    POINTS = [(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]


    def step(weight, bias, rate=0.1):
        errors = [weight * x + bias - y for x, y in POINTS]
        loss = sum(error**2 for error in errors) / len(POINTS)
        weight -= rate * sum(error * x for error, (x, _) in zip(errors, POINTS))
        bias -= rate * sum(errors)
        return weight, bias, loss


    if __name__ == "__main__":
        weight, bias = 0.0, 0.0
        for epoch in range(1000):
            weight, bias, loss = step(weight, bias)
            print(f"epoch {epoch}: loss {loss:.4f}", flush=True)
            time.sleep(0.2)
    '''
#: Seconds for which a frame stays.
SHOWN = (1.5, 1.5, 3.5)


def take() -> None:
    """Write the pictures."""
    vscode = installed()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        files = {"train.py": TRAIN, "dkdbg.toml": f"[debug]\nport = {free_port()}\n"}
        root = repo(Path(folder) / unique("train"), files)
        must(dkdbg(root, "init", "--yes"))
        browser = playwright.chromium.launch(executable_path=vscode.browser, args=list(CHROMIUM))
        try:
            with serving(vscode, Path(folder) / "vscode", BASE) as server:
                page = browser.new_page(viewport={"width": 1100, "height": 680})
                page.set_default_timeout(TIMEOUT_S * 1000)
                editor = Workbench(page, server, root)
                editor.open("train.py", 12)
                frames = [page.screenshot()]
                editor.toggle_breakpoint()
                frames.append(page.screenshot())
                editor.press("F5")
                editor.stops_at("train.py", 12)
                editor.until("the variables are shown", lambda: "bias" in editor.local_variables())
                frames.append(page.screenshot(path=DOCS / "f5.png"))
            _take_hang(browser, Path(folder) / "hang.html")
        finally:
            take_away(root, BASE)
            browser.close()
    _write(frames)


def _take_hang(browser: Browser, file: Path) -> None:
    shown = browser.new_page(viewport={"width": 760, "height": 450}, color_scheme="light")
    file.write_text(of_eight())
    shown.goto(file.as_uri())
    shown.locator(".grid button").nth(2).click()
    shown.screenshot(path=DOCS / "hang.png")


def _write(frames: list[bytes]) -> None:
    try:
        from PIL import Image
    except ImportError:
        return
    pictures = [Image.open(io.BytesIO(each)).convert("RGB").quantize(64) for each in frames]
    milliseconds = [int(each * 1000) for each in SHOWN]
    others = {"save_all": True, "append_images": pictures[1:], "duration": milliseconds}
    pictures[0].save(DOCS / "f5.gif", **others, loop=0, optimize=True)


if __name__ == "__main__":
    take()
