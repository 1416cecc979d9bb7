"""What `dkdbg forward` says of the connection; the ports themselves are in tests/far and tests/kubernetes."""

import json

import pytest

from dkdbg.verbs import forward


class Seen:
    """A relay as each look finds it: what is wrong, and how many connections there have been; then Ctrl-C."""

    def __init__(self, *looks):
        self._looks = list(looks)
        self.connections = 0

    @property
    def why(self):
        if not self._looks:
            raise KeyboardInterrupt
        why, self.connections = self._looks.pop(0)
        return why


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([("", 1), ("", 1)], [True]),
        ([("", 1), ("cut", 1), ("cut", 1), ("", 2)], [True, False, True]),
        ([("", 1), ("", 2)], [True, True]),  # a cut between two looks
        ([("cut", 1), ("", 2), ("refused", 2), ("cut", 2)], [True, False, False]),  # the first is no news
    ],
)
def test_each_connection_is_told_also_one_after_a_cut_that_nobody_saw(looks, said, capsys, monkeypatch):
    monkeypatch.setattr(forward, "_POLL_S", 0.0)
    with pytest.raises(KeyboardInterrupt):
        forward._watch(Seen(*looks), as_json=True, is_over=lambda: False)  # type: ignore[arg-type]
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["connected"] for each in told] == said
