"""Lightning: `fabric run`, `lightning run`, and the ranks that a Trainer starts by itself."""

from __future__ import annotations

from dkdbg.launchers.launcher import number_in
from dkdbg.launchers.shapes import Spreader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class Lightning(Spreader):
    """Lightning; a rank that it starts has LOCAL_RANK and NODE_RANK, no RANK (plugins/environments/lightning.py)."""

    names = ("lightning", "fabric")
    programs = ("lightning", "fabric")
    value_options = (
        "--accelerator", "--strategy", "--devices", "--num_nodes", "--num-nodes", "--node_rank", "--node-rank", "--main_address",
        "--main-address", "--main_port", "--main-port", "--precision",
    )  # fmt: skip
    count_options = ("--devices",)
    node_ranks = ("NODE_RANK",)

    def launch(self, line: Line) -> Launch | None:
        """Return the script behind `run`."""
        return super().launch(line) if line.rest[:1] in (["run"], ["fabric"]) else None

    def rank_of(self, environment: dict[str, str]) -> int | None:
        """Return the local rank on the first machine; on others it is not known how many came before."""
        node = number_in(environment, self.node_ranks)
        return number_in(environment, ("LOCAL_RANK",)) if node == 0 else None


LAUNCHER = Lightning()
