"""vLLM: `vllm serve MODEL`; the program is the library, never the repository."""

from __future__ import annotations

from dkdbg.launchers.launcher import SERVER, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Vllm(Launcher):
    """vllm serve, and its older form as a module."""

    names = ("vllm",)
    programs = ("vllm",)
    modules = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
    role = SERVER
    is_program = False
    port = 8000

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Tell whether the server is asked for; as a module it has no verb."""
        return not rest or rest[0] == "serve" or rest[0].startswith("-")


LAUNCHER = Vllm()
