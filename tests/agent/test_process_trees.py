"""A few random trees of processes; `python -m tests.agent.process_trees` runs 500."""

import pytest

from dkdbg.delivery import single_file
from tests.agent.process_trees import compare


@pytest.mark.parametrize("seed", [1, 5, 6])  # which have each kind of start, of end and of editor
def test_a_tree_of_processes_runs_as_without_the_agent_and_stops_everywhere(layout, seed):
    assert not compare(seed, layout / single_file.NAME)
