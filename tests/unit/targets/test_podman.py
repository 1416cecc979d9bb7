"""What Podman is built with, by the project as compose merges it."""

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.targets.docker.podman import builds, has_selinux, is_podman, unlabelled

HOST = "unix:///run/user/1000/podman/podman.sock"


def model(**build):
    given = {"context": "/home/me/repo", "dockerfile": "Dockerfile", **build}
    secrets = {"ca": {"file": "/dev/null"}, "token": {"environment": "TOKEN"}}
    return {"name": "repo", "secrets": secrets, "services": {"app": {"build": given, "depends_on": {"db": {}}}, "db": {"image": "postgres"}, "other": {"build": given}}}  # fmt: skip


def test_the_image_gets_composes_name_and_labels_and_arguments_secrets_and_stages_travel():
    (argv,) = builds(model(), "app", HOST)
    assert argv[:4] == ("podman", "--url", HOST, "build")
    assert argv[argv.index("--tag") + 1] == "repo-app"
    assert argv[argv.index("--file") + 1] == "/home/me/repo/Dockerfile"
    assert "com.docker.compose.service=app" in argv
    assert argv[-1] == "/home/me/repo"
    given = model(
        args={"BASE": "b:1", "FROM_ENV": None, "MONEY": "$$5"}, target="dev",
        secrets=[{"source": "ca"}, {"source": "token", "target": "t"}],
    )  # fmt: skip
    (argv,) = builds(given, "app", HOST)
    assigned = [argv[position + 1] for position, word in enumerate(argv) if word == "--build-arg"]
    assert assigned == ["BASE=b:1", "FROM_ENV", "MONEY=$5"]
    assert "id=ca,src=/dev/null" in argv
    assert "id=t,env=TOKEN" in argv
    assert argv[argv.index("--target") + 1] == "dev"


def test_what_is_started_with_it_is_built_too_and_a_build_that_podman_cannot_do_is_refused():
    given = model()
    given["services"]["db"] = {"build": {"context": "/db"}, "image": "mine/db"}
    tags = [argv[argv.index("--tag") + 1] for argv in builds(given, "app", HOST)]
    assert sorted(tags) == ["mine/db", "repo-app"]
    with pytest.raises(DkdbgError, match="app is built with ssh, which podman build does not support"):
        builds(model(ssh=["default"]), "app", HOST)


def test_an_engine_is_known_by_what_it_says_and_where_selinux_guards_files_the_service_goes_without_its_label():
    assert is_podman([{"Name": "Podman Engine", "Version": "4.3.1"}, {"Name": "Conmon"}])
    assert not is_podman([{"Name": "Engine", "Version": "26.1.5"}])
    assert not is_podman(None)
    assert has_selinux({"SecurityOptions": ["name=seccomp,profile=default", "name=selinux"]})
    assert not has_selinux({"SecurityOptions": ["name=seccomp,profile=default"]})
    assert unlabelled(model(), "app")["services"]["app"]["security_opt"] == ["label=disable"]
