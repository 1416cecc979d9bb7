"""A toy kind of places: folders of this machine with a session folder of their own. What a new kind takes, whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

from dkdbg.core import record, sessions
from dkdbg.core.address import Address
from dkdbg.core.target import Endpoint, Kind, Workspace


class ToyTarget:
    pause = 0.1

    def __init__(self, address):
        self.address, self.label = address, f"toy {address.rest}"
        self.folder = Path(os.environ["TOY_PLACES"], address.rest)

    def find(self):
        return self

    def wrap(self, argv, *, tty=False):  # noqa: ARG002
        return ("env", "-C", str(self.folder), f"DKDBG_RUNTIME_DIR={self.folder}/run", *argv)

    def agent(self):
        return (sys.executable, "-m", "dkdbg.agent")

    def workspace(self):
        return Workspace(local=".", remote=f"{self.folder}/code", why="a toy has it there")

    def sessions(self):
        said = subprocess.run(
            self.wrap([*self.agent(), "sessions", "--json"]), stdout=subprocess.PIPE, check=True
        )
        return [
            sessions.of_record(
                record.parse(each), live=each["live"], target=self.label, address=str(self.address)
            )
            for each in json.loads(said.stdout)
        ]

    def endpoint(self):
        live = [each.endpoint for each in self.sessions() if not each.is_ended]
        host, _, port = live[-1].rpartition(":") if live else ("", "", "")
        return Endpoint(address=(host, int(port)) if live else None, why=f"nothing runs on {self.label}")

    def changes(self):
        return None

    def close(self):
        pass


def seen():
    names = sorted(each.name for each in Path(os.environ["TOY_PLACES"]).iterdir())
    return [one for name in names for one in ToyTarget(Address(scheme="toy", rest=name)).sessions()]


KIND = Kind(target=lambda address, _root: ToyTarget(address), sessions=seen)
