"""docs/how-to/neovim.md: its commands, its init.lua and its keys, in a headless Neovim that stops in a container's program."""

import pytest

from tests.editor import neovim
from tests.engine.projects import LOOP, marked_line, must, project, unique
from tests.pages import Page
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]


def test_f5_as_the_page_sets_it_up_stops_in_the_container(tmp_path, base_image):
    neovim.neovim()
    page = Page.of("how-to/neovim.md")
    files = {"train.py": LOOP, ".env": f"DKDBG_BASE={base_image}\nDKDBG_PORT={free_port()}\n"}
    with project(tmp_path / unique("neovim"), files) as root, page.all_run():
        must(page.run("dkdbg init --yes", cwd=root))
        must(page.run("dkdbg up", cwd=root))
        with neovim.opened(root, "train.py", plugin=neovim.nvim_dap(), init=page.block("lua")) as editor:
            line = marked_line(root / "train.py")
            editor.press(f"{line}G<F9><F5>")
            first = editor.stop()
            assert (first["path"], first["line"], first["name"]) == (str(root / "train.py"), line, "step")
            assert first["values"] == {"n": "0", "loss": "1.0"}
            editor.press("<F5>")
            second = editor.stop()
            while second["values"]["n"] == "0":  # the first one is shown until the program has gone on
                second = editor.stop()
            assert second["values"] == {"n": "1", "loss": "0.5"}
