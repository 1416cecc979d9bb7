"""A toy kind of targets: folders of this machine with a session folder of their own. What a new kind takes, whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

from dkdbg.core import record, sessions
from dkdbg.core.address import Address
from dkdbg.core.mapping import Workspace
from dkdbg.core.target import Endpoint, Executor, Kind, Target


class ToyExecutor(Executor):
    def __init__(self, folder, label):
        self.folder, self.label = folder, label

    def wrap(self, argv, *, tty=False):  # noqa: ARG002
        return ("env", "-C", str(self.folder), f"DKDBG_RUNTIME_DIR={self.folder}/run", *argv)


class ToyTarget(Target):
    pause = 0.1

    @property
    def label(self):
        return f"toy {self.address.rest}"

    @property
    def folder(self):
        return Path(os.environ["TOY_PLACES"], self.address.rest)

    def find(self):
        return ToyExecutor(self.folder, self.label)

    def wrap(self, argv, *, tty=False):
        return self.find().wrap(argv, tty=tty)

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


def seen():
    names = sorted(each.name for each in Path(os.environ["TOY_PLACES"]).iterdir())
    return [one for name in names for one in ToyTarget(Address(scheme="toy", rest=name)).sessions()]


KIND = Kind(target=lambda address, _root: ToyTarget(address), sessions=seen)
