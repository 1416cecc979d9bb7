"""Takes the picture in docs/hang.md anew, by hand: python -m tests.editor.hang_picture."""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.editor.conftest import CHROMIUM
from tests.editor.hang_page import of_eight
from tests.editor.install import BROWSERS

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "hang.png"


def take() -> None:
    """Write the picture."""
    path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM))
        shown = browser.new_page(viewport={"width": 760, "height": 450}, color_scheme="light")
        page = Path(folder) / "hang.html"
        page.write_text(of_eight())
        shown.goto(page.as_uri())
        shown.locator(".grid button").nth(2).click()
        shown.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    take()
