"""Text from outside is taken for a number only if int() accepts it: `"²".isdigit()` is true."""

import pytest

from dkdbg.agent.inprocess import choosing
from dkdbg.agent.state import announced, naming
from dkdbg.agent.supervisor import held_deadlines
from dkdbg.errors import DkdbgError
from dkdbg.launchers import registry
from dkdbg.launchers.lines.command_lines import port_of
from dkdbg.launchers.words import whole_number
from dkdbg.setup.detect import repo
from dkdbg.verbs import why

NO_NUMBERS = ["\u00b2", "9" * 4301]
each_text = pytest.mark.parametrize("text", NO_NUMBERS, ids=["superscript", "4301 digits"])


@pytest.mark.parametrize("text", [*NO_NUMBERS, "", "-1", " 1", "1_0", "\u0661"])
def test_other_text_is_no_number(text):
    assert whole_number(text) is choosing.whole_number(text) is None


def test_a_number_may_have_a_maximum():
    assert (whole_number("65535", 65535), whole_number("65536", 65535), whole_number("007")) == (
        65535,
        None,
        7,
    )


@each_text
def test_no_rank_is_read_from_it(text):
    assert registry.ranks({"RANK": text, "LOCAL_RANK": text, "WORLD_SIZE": text}) == (None, None, None)
    environment = {"RANK": text, "LOCAL_RANK": text, "NODE_RANK": "0"}
    assert choosing.rank_of(environment, ["x"], "", below=True, parents=None) is None
    process = {"origin": f"rank:{text}", "rank": 3, "local_rank": None, "pid": 42, "ppid": 41, "argv": ["x"]}
    assert naming.describe(process) == f"worker {text} of rank 3"
    assert held_deadlines.listed_ranks([f"rank {text}", "rank 1"]) == f"rank {text}, rank 1"


@each_text
def test_no_port_is_read_from_it(text):
    assert (port_of(f"python manage.py runserver {text}"), port_of(f"uvicorn a:b --port {text}")) == (
        8000,
        8000,
    )


def test_a_repository_with_one_is_understood(tmp_path):
    (tmp_path / "Dockerfile").write_text(
        f"FROM python:3.11\nEXPOSE {NO_NUMBERS[1]} 8000\nCOPY --from=\u00b2 /a /b\n"
    )
    (tmp_path / "compose.yaml").write_text(f"services: {{a: {{build: ., ports: ['{NO_NUMBERS[1]}']}}}}\n")
    assert repo.inspect(tmp_path).problems == ()


@each_text
def test_why_names_the_form_of_a_line(tmp_path, text):
    with pytest.raises(DkdbgError, match=r"is not FILE:LINE"):
        why._parsed(tmp_path, f"train.py:{text}")


@pytest.mark.parametrize("name", ["\u00b2", "9" * 200, "4194304"])
def test_a_file_of_another_user_hides_no_process(tmp_path, name):
    own, other = tmp_path / "p", tmp_path / "u"
    for folder in (own, other):
        folder.mkdir()
    (own / "7.json").touch()
    (other / f"{name}.json").touch()
    assert announced.Folders(str(own), {1000: str(other)}).pids() == [7]
