"""Small repositories that a test writes, and the facts that are read from them."""

import shutil
from pathlib import Path
from textwrap import dedent

from dkdbg.setup.detect.repo import inspect

#: A program that trains, and an image with the code.
TRAIN = "import torch\nfor batch in []:\n    loss.backward()\n"
SLIM = "FROM python:3.11-slim\nWORKDIR /app\nCOPY . .\n"


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str = "", *, newline: str = "\n"):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(dedent(text).lstrip("\n").replace("\n", newline).encode())
        return self

    def program(self, path: str, body: str = ""):
        return self.write(path, f"{dedent(body)}\nif __name__ == '__main__':\n    main()\n")

    def readme(self, *commands: str):
        return self.files({"README.md": commands})

    def files(self, texts: dict[str, str | tuple[str, ...]]):
        """Write these; a tuple is a page whose commands stand in a block of the shell."""
        for path, text in texts.items():
            page = "# Project\n\n```bash\n" + "\n".join(text) + "\n```\n" if isinstance(text, tuple) else text
            self.write(path, page)
        return self

    def empty(self):
        shutil.rmtree(self.root)
        self.root.mkdir()
        return self

    def facts(self):
        return inspect(self.root)
