"""Large files, sent in pieces: BEGIN, DATA, END. An incomplete file is kept, named by its digest, to be resumed."""

from __future__ import annotations

import hashlib
import os

from dkdbg.sync.receiver import content, tree
from dkdbg.sync.receiver.problems import Fatal, Refused, explain
from dkdbg.sync.receiver.state import PART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Set

    from dkdbg.sync.receiver.placing import Placer
    from dkdbg.sync.receiver.state import State

#: Maximum files to transfer at the same time: each has a descriptor.
_MAX_OPEN = 64


class Transfer:
    """One file in transfer.

    Attributes:
        head: the head of BEGIN.
        name: name of the temporary file.
        descriptor: its descriptor.
        hasher: hash of the received bytes.
        size: number of the received bytes.
    """

    def __init__(self, head: Dict[str, Any], name: bytes, descriptor: int) -> None:
        self.head = head
        self.name = name
        self.descriptor = descriptor
        self.hasher = hashlib.sha256()
        self.size = 0


class Transfers:
    """All files in transfer."""

    def __init__(self, state: State, placer: Placer) -> None:
        self._folder = state.temporary
        self._placer = placer
        self._open: Dict[int, Transfer] = {}
        self._ended: Set[int] = (
            set()
        )  # ids of transfers that failed in the middle, whose remaining pieces are ignored

    def first_open(self) -> Optional[int]:
        """Return the smallest id of the files in transfer; None without one."""
        return min(self._open, default=None)

    def begin(self, head: Dict[str, Any]) -> int:
        """Begin or resume a file; return the number of bytes that the target already has. Raises OSError or Refused."""
        if len(self._open) >= _MAX_OPEN:
            raise Refused("more than %d large files at the same time" % _MAX_OPEN)
        name = PART + head["digest"].encode("ascii")
        if any(other.name == name for other in self._open.values()):
            name = self._placer.temporary_name()
        transfer = self._continued(head, name)
        if transfer is None:
            transfer = Transfer(head, name, tree.create_file(self._folder, name))
        self._open[head["id"]] = transfer
        return transfer.size

    def _continued(self, head: Dict[str, Any], name: bytes) -> Optional[Transfer]:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        except OSError:
            tree.remove(self._folder, name)
            return None
        info = os.fstat(descriptor)
        if tree.kind_of(info) == "f" and info.st_nlink == 1 and info.st_size <= head["size"]:
            transfer = Transfer(head, name, descriptor)
            transfer.size = content.feed(transfer.hasher, descriptor)
            return transfer
        os.close(descriptor)
        tree.remove(self._folder, name)
        return None

    def ignore(self, number: int) -> None:
        """Ignore pieces of a refused file that the host sent before it learned of the refusal."""
        self._ended.add(number)

    def data(self, number: int, body: bytes) -> None:
        """Append a piece.

        Raises:
            Refused: the piece does not fit; the transfer is given up.
            Fatal: no such file is in transfer.
        """
        transfer = self._open.get(number)
        if transfer is None:
            if number in self._ended:
                return
            raise Fatal("DATA for %d, which was not begun" % number)
        transfer.size += len(body)
        try:
            if transfer.size > transfer.head["size"]:
                raise Refused("received more bytes than the %d announced" % transfer.head["size"])
            content.write_all(transfer.descriptor, body)
        except (OSError, Refused) as error:
            self._ended.add(number)
            self._give_up(self._open.pop(number))
            if isinstance(error, OSError):
                raise Refused(*explain(error)) from None
            raise
        transfer.hasher.update(body)

    def end(self, number: int) -> Optional[Transfer]:
        """Return the complete, checked file for the placer; None if the transfer failed earlier.

        Raises:
            Refused: the file is incomplete or not as announced; the transfer is given up.
            Fatal: no such file is in transfer.
        """
        transfer = self._open.pop(number, None)
        if transfer is None:
            if number in self._ended:
                self._ended.discard(number)
                return None
            raise Fatal("END of %d, which was not begun" % number)
        wanted = transfer.head["size"]
        if transfer.size != wanted:
            self._give_up(transfer)
            raise Refused("received %d of %d bytes" % (transfer.size, wanted))
        if transfer.hasher.hexdigest() != transfer.head["digest"]:
            self._give_up(transfer)
            raise Refused("the received content does not match its digest", "it changed while it was read")
        return transfer

    def close(self) -> None:
        """Close the files in transfer; their parts wait for the next receiver."""
        for transfer in self._open.values():
            os.close(transfer.descriptor)
        self._open.clear()

    def _give_up(self, transfer: Transfer) -> None:
        os.close(transfer.descriptor)
        self._placer.drop(transfer.name)
