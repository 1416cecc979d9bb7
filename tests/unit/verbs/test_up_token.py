"""What `dkdbg up` says and does about the token of the debug port, before anything starts."""

import os
import stat

import pytest

from dkdbg import hints
from dkdbg.core.plan import DebugService
from dkdbg.errors import DkdbgError
from dkdbg.setup.render import token_file
from dkdbg.targets.docker import compose_up
from dkdbg.verbs.parts import service_token
from tests.hints import hinted, in_shell


def service(token):
    return DebugService(
        name="app-debug", compose_file="compose.yaml", port=5678, gpu=False, host_network=False, token=token
    )


@pytest.fixture
def said(tmp_path, monkeypatch):
    """A user with a home of their own; the lines that were reported."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "my settings"))
    monkeypatch.setattr(service_token, "others", lambda: ("anna", "ben", "cara", "dan"))
    return []


def choose(kind, said):
    return service_token.choose_token(service(kind), report=said.append)


def test_on_a_shared_machine_one_line_names_the_next_step_and_on_ones_own_nothing_is_said(said, monkeypatch):
    assert choose("none", said) == ""
    assert len(said) == 1
    assert "anna, ben, cara and 1 more" in said[0]
    assert 'token = "env"' in said[0]
    monkeypatch.setattr(service_token, "others", tuple)
    assert (choose("none", alone := []), alone) == ("", [])


@pytest.mark.parametrize(("kind", "how"), [("env", "export DKDBG_TOKEN="), ("prompt", "F5 asks for it")])
def test_a_token_that_is_wanted_is_made_and_shown_by_nothing_but_what_is_said(said, kind, how, tmp_path):
    token = choose(kind, said)
    assert token
    assert token == choose(kind, [])
    assert any(how in line for line in said)
    assert not any(token in line for line in said)
    text = "\n".join(said)
    if kind == "env":
        [line] = hinted(text, hints.TOKEN_EXPORT)
        shown = in_shell(tmp_path, f"{line}; echo $DKDBG_TOKEN")
    else:
        [line] = hinted(text, hints.TOKEN_SHOW)
        shown = in_shell(tmp_path, line)
    assert shown.stdout.strip() == token


@pytest.mark.parametrize("harm", ["others can read it", "it is empty"])
def test_a_token_that_is_none_is_removed_as_it_says_and_made_anew(said, tmp_path, harm):
    before, file = choose("env", said), token_file.path(os.environ)
    if harm == "it is empty":
        file.write_text("")
    else:
        file.chmod(0o644)
    with pytest.raises(
        DkdbgError, match="is empty" if harm == "it is empty" else "other users can read"
    ) as error:
        choose("env", said)
    assert before not in error.value.message + error.value.hint
    lines = hinted(error.value.hint, hints.TOKEN_ANEW)
    assert in_shell(tmp_path, lines[0]).returncode == 0
    token = choose("env", said)
    assert token != before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_way_to_the_editor_is_not_repeated_where_the_editor_has_it(said, monkeypatch):
    monkeypatch.setenv("DKDBG_TOKEN", token_file.make(os.environ))
    assert (bool(choose("env", said)), said) == (True, [])


def test_an_empty_variable_wants_none_and_is_told_so(said, monkeypatch):
    monkeypatch.setenv("DKDBG_TOKEN", "")
    assert choose("env", said) == ""
    assert "everyone who can reach the port may attach" in said[0]


def published(host, *, asks=False):
    ports = {"ports": [{"target": 5678, "host_ip": host, "published": "5678"}]}
    secret = {
        "environment": {"DKDBG_TOKEN_FILE": "/run/secrets/dkdbg-token"},
        "secrets": [{"source": "dkdbg-token-set", "target": "dkdbg-token"}],
    }
    return {"services": {"app-debug": {**ports, **(secret if asks else {})}}}


def test_beyond_loopback_a_token_is_required_and_a_service_that_would_not_hear_of_it_not_started():
    with pytest.raises(DkdbgError, match=r"publishes its debug port on 0\.0\.0\.0"):
        compose_up.check_published(published("0.0.0.0"), service("none"), "")
    compose_up.check_published(published("0.0.0.0", asks=True), service("env"), "secret")
    compose_up.check_published(published("127.0.0.1"), service("none"), "")
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(DkdbgError, match=r"is configured to require a token, but compose\.yaml") as error:
            compose_up.check_published(published(host), service("env"), "secret")
        assert "rm compose.yaml, then dkdbg init again" in error.value.hint
