"""Names that dkdbg.toml gives to targets: every verb takes them, and a hostile repository gains nothing by them."""

import json

import pytest

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets import registry
from tests.commands import must
from tests.engine.projects import dkdbg


def named(root, **places):
    text = "".join(f"[targets.{name}]\nuri = {json.dumps(uri)}\n" for name, uri in places.items())
    (root / "dkdbg.toml").write_text(text)
    return root


def test_a_name_is_the_place_at_its_address_which_needs_no_file_itself(tmp_path):
    named(tmp_path, cluster="ssh://me@login,node1/~/code", bert="k8s://ml/pytorchjob/bert:2")
    assert str(registry.target_of("cluster", tmp_path).address) == "ssh://me@login,node1/~/code"
    assert str(registry.target_of("bert", tmp_path).address) == "k8s://ml/pytorchjob/bert:2"
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    assert str(registry.target_of("trainer", tmp_path).address) == "compose://trainer"
    (tmp_path / "dkdbg.toml").write_text("[[[")
    assert registry.target_of("ssh://login", tmp_path).label == "login"


def test_a_name_in_a_table_places_of_a_former_version_is_read(tmp_path):
    text = '[places.cluster]\nuri = "ssh://old"\n[places.login]\nuri = "ssh://login"\n[targets.cluster]\nuri = "ssh://a"\n'
    (tmp_path / "dkdbg.toml").write_text(text)
    assert registry.names(tmp_path) == {"cluster": "ssh://a", "login": "ssh://login"}


def test_a_name_that_nothing_here_has_is_said_to_be_none_where_no_engine_can_be_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    named(tmp_path, cluster="ssh://login")
    with pytest.raises(DkdbgError) as raised:
        registry.target_of("clutser", tmp_path)
    assert "nothing here is called 'clutser'" in raised.value.message
    assert "no Docker engine answers" in raised.value.message
    assert "ssh://HOST" in raised.value.hint


@pytest.mark.parametrize(
    "uri",
    [
        "ray+ssh://elsewhere.example.com/code",
        "ray+local://.",
        "RAY://elsewhere.example.com",
        "ssh://-oProxyCommand=id",
        "ssh://login,-oProxyCommand=id/code",
        "ssh://a@-oProxyCommand=id",
        "ssh://`id`",
        "ssh://$(id)/code",
        "ssh://login;id",
        "docker://--privileged",
        "compose://-x",
        "k8s://--kubeconfig=x/pod",
        "ssh://login/code\n[debug]",
        "local:/home/me",
        "local:",
        "127.0.0.1:5678",
        "ssh://login/~/.ssh",
        "ssh://login/home/me/.config/autostart",
        "ssh://login/home/me",
        "ssh://login/root",
        "ssh://login/~/..",
        "ssh://login//",
        "cluster",
        "nope://x",
    ],
)
def test_what_could_run_here_or_be_read_by_a_shell_there_is_refused(tmp_path, uri):
    named(tmp_path, cluster=uri)
    with pytest.raises(DkdbgError) as caught:
        registry.target_of("cluster", tmp_path)
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[targets.cluster]\n", "[targets.cluster] must have uri and no other key"),
        ('[targets.cluster]\nuri = "ssh://a"\nproxy = "x"\n', "no other key"),
        ("[targets.cluster]\nuri = 7\n", "must be a text, not 7"),
        ('[targets."-o"]\nuri = "ssh://a"\n', "'-o' is not a valid name for a target"),
        ('[targets."a b"]\nuri = "ssh://a"\n', "'a b' is not a valid name for a target"),
        ('targets = "x"\n', "[targets] must be a table"),
    ],
)
def test_a_table_that_is_wrong_is_named(tmp_path, text, problem):
    (tmp_path / "dkdbg.toml").write_text(text)
    with pytest.raises(DkdbgError) as caught:
        registry.target_of("cluster", tmp_path)
    assert problem in caught.value.message


def test_ps_and_errors_list_the_names(tmp_path):
    named(tmp_path, cluster="ssh://login,node1/~/code")
    assert "cluster (ssh://login,node1/~/code)" in must(dkdbg(tmp_path, "ps")).stdout
    assert json.loads(must(dkdbg(tmp_path, "ps", "--json")).stdout)["targets"] == {
        "cluster": "ssh://login,node1/~/code"
    }
    assert "cluster" in dkdbg(tmp_path, "sync", "a/b").stderr


def test_names_do_not_make_the_debug_service_another_one():
    """What `init` wrote stays valid when a place is added."""
    from dkdbg.setup.render.manifest import _choices

    assert _choices(b"") == _choices(b'[targets.a]\nuri = "ssh://a"\n')
