"""What the engine's messages mean; each text was printed by a real engine (26.1, by ssh 28.2) or compose (2.26)."""

import os
import time

import pytest

from dkdbg.agent.settings import ENV_STANDS_FOR
from dkdbg.core.plan import DebugService
from dkdbg.errors import EXIT_ENGINE
from dkdbg.targets.docker import containers
from dkdbg.targets.docker.compose import open_addresses, replaced_volumes
from dkdbg.targets.docker.compose_up import make_mount_points
from dkdbg.targets.docker.engine_errors import explain, with_port

GET = 'error during connect: Get "https://172.17.0.5:2376/v1.50/info": '
#: Text of the engine, cause, and a part of the hint.
MESSAGES = {
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock": "may not use its socket",
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?": "no Docker engine",
    "Error starting userland proxy: listen tcp4 127.0.0.1:45678: bind: address already in use": "port",
    "Bind for 127.0.0.1:45678 failed: port is already allocated": "port",
    "Failed to bind port 8080 (Address already in use) for option '-t 8080-8080:8080-8080'": "a port of the service|ss -ltnp",
    "Error response from daemon: Address already in use": "an address of the service|docker network inspect",
    'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]': "asks for a GPU",
    'could not select device driver "" with capabilities: [[gpu]]': "asks for a GPU",
    "unknown or invalid runtime name: nvidia": "nvidia runtime",
    "CDI device injection failed: unresolvable CDI devices vendor.com/gpu=9": "CDI device",
    'error gathering device information while adding custom device "/dev/kfd": no such file or directory': "does not exist",
    "project name must not be empty": "project name",
    "validating /repo/compose.yaml: services.web Additional property bogus is not allowed": "does not accept",
    'service "web" depends on undefined service "nope": invalid compose project': "does not accept",
    "Invalid hostPort: 99999": "does not accept",
    "invalid interpolation format for services.web.environment.A.": "does not accept",
    "error while interpolating services.web.environment.A: required variable B is missing a value: set B": "needs a variable",
    "env file /repo/.env.prod not found: stat /repo/.env.prod: no such file or directory": "env_file",
    'Failed to initialize: unable to resolve docker endpoint: context "nope": context not found': "which engine to ask",
    'error during connect: Get "http://nonsense:2375/v1.50/info": dial tcp: lookup nonsense: no such host': "no Docker engine",
    "error setting rlimit type 8: operation not permitted": "ulimits",
    'cannot extend service "app-debug" in /repo/compose.yaml: service "dkdbg-gpu-foo" not found': "DKDBG_GPU",
    'cannot extend service "app-debug" in /repo/compose.override.yaml: service "app" not found in compose.yaml': "no longer has",
    'cannot extend service "app-debug" in /repo/compose.yaml: service "app" not found': "no longer has",
    "failed to solve: failed to resolve source metadata for docker.io/docker/dockerfile:1: failed to do request: Head": "# syntax=",
    "failed to solve: python:3.11-slim: failed to resolve source metadata for docker.io/library/python:3.11-slim": "base image",
    'initializing source docker://python:3.99-slim: pinging container registry registry-1.docker.io: Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 10.0.0.53:53: no such host': "base image",
    'Error: creating build container: short-name "nosuchimage-x:1" did not resolve to an alias and no unqualified-search registries are defined in "/etc/containers/registries.conf"': "base image",
    'Error response from daemon: Get "https://registry.invalid/v2/": dial tcp: lookup registry.invalid on 10.0.0.53:53: no such host': "base image",
    "failed to create network x_default: Error response from daemon: could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network": "address range",
    "failed to create network x_default: Error response from daemon: all predefined address pools have been fully subnetted": "address range",
    "Error response from daemon: No such image: shared:dev": "image is not on this machine|docker compose build",
    "application not healthy after 3s": "in time",
    'unable to start container process: exec: "sh": executable file not found in $PATH: unknown': "no sh on PATH|if your service sets PATH",
    "container x-app-debug-1 exited (3)": "ended before",
    "container x-app-debug-1 is unhealthy": "does not listen",
    "Cannot connect to the Docker daemon at unix:///run/user/1000/podman/podman.sock. Is the docker daemon running?": "no Podman answers at this socket",
    "container create: container-init binary not found on the host: stat /usr/libexec/podman/catatonit: no such file": "Podman has no init",
    "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed": "certificate",
    "Error response from daemon: container rootfs is marked read-only": "read-only",
    'error mounting "/p/.dkdbg" to rootfs at "/opt/dkdbg": mkdir /var/lib/docker/overlay2/717d/merged/opt/dkdbg: read-only file system: unknown': "covers dkdbg's mount point|/opt/conda",
    'unable to start container process: exec: "/sbin/docker-init": stat /sbin/docker-init: no such file or directory: unknown': "covers dkdbg's mount point|/opt/conda",
    "Error response from daemon: Client sent an HTTP request to an HTTPS server.": "this engine requires TLS, and docker is not configured for it|DOCKER_TLS_VERIFY=1",
    'error during connect: Get "https://127.0.0.1:2375/v1.50/info": http: server gave HTTP response to HTTPS client': "this engine does not use TLS|DOCKER_HOST=ssh://",
    "Failed to initialize: unable to resolve docker endpoint: open /c/ca.pem: no such file or directory": "the certificates for this engine cannot be read|DOCKER_CERT_PATH",
    "open /root/.docker/ca.pem: no such file or directory": "the certificates for this engine cannot be read|unset DOCKER_TLS_VERIFY",
    f"{GET}remote error: tls: certificate required": "the engine requires a client certificate|cert.pem",
    f"{GET}tls: failed to verify certificate: x509: certificate signed by unknown authority": "the server's certificate was not issued by the authority in ca.pem|ca.pem",
    "#9 12.3 x509: certificate signed by unknown authority": "the build does not trust",
    "Error response from daemon: client version 1.99 is too new. Maximum supported API version is 1.45": "this engine is older than the API version that docker is set to use|unset DOCKER_API_VERSION",
    "Error response from daemon: client version 1.12 is too old. Minimum supported API version is 1.24, please upgrade your": "this docker command is older than the engine supports|docker-compose-plugin",
    '"specify health-check start interval" requires API version 1.44, but the Docker daemon API version is 1.43': "this engine is too old for an option in your compose file|upgrade the engine",
    "Cannot connect to the Docker daemon at http://docker.example.com. Is the docker daemon running?": "ssh reaches the machine|usermod -aG docker",
    "Error response from daemon: invalid volume specification: '/home/al/x:y/.dkdbg:/opt/dkdbg:ro'": "path contains a colon|rename",
    'Error response from daemon: invalid mount config for type "bind": bind source path does not exist: /srv/nowhere': "is not on the engine's machine",
}
#: Of a build that failed for another reason, behind a proxy that pip does not trust.
NEWER_PIP = (
    "#9 2.540 error: metadata-generation-failed\n#9 2.667 Could not fetch URL https://pypi.org/simple/pip/: There was a problem "
    "confirming the ssl certificate: (Caused by SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed')) - skipping\n"
)
BY_SSH = (
    'error during connect: Get "http://docker.example.com/v1.50/containers/json": command [ssh -o ConnectTimeout=30 -T {words} '
    "docker system dial-stdio] has exited with exit status {code}, make sure the URL is valid, and Docker 18.09 or later is "
    "installed on the remote host: stderr={said}\n"
)


@pytest.mark.parametrize("text", MESSAGES)
def test_a_message_of_the_engine_becomes_a_cause_and_a_next_step(text):
    error = explain(1, f"some line before\n{text}\nsome line after")
    cause, _, hint = MESSAGES[text].partition("|")
    assert cause in error.message
    assert text in error.message
    assert error.hint
    assert hint in error.hint
    assert error.exit_code != 0


def test_a_bad_volume_of_windows_is_not_a_folder_with_a_colon():
    assert "colon" not in explain(1, r"invalid volume specification: 'C:\proj:/x:rw'").message.splitlines()[0]


def test_the_index_of_a_newer_pip_is_not_why_a_build_has_failed():
    assert "certificate" not in explain(17, NEWER_PIP).message.splitlines()[0]
    assert "certificate" in explain(17, NEWER_PIP.replace("/pip/", "/torch/")).message.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "said", "cause"),
    [
        ("-- nowhere.invalid", "ssh: Could not resolve hostname nowhere.invalid: Name or service not known", "there is no host nowhere.invalid"),
        ("-l nobodyhere -- box", "nobodyhere@172.17.0.3: Permission denied (publickey).", "ssh://nobodyhere@box: nobodyhere@172.17.0.3 accepts none"),
        ("-p 2 -- box", "ssh: connect to host 172.17.0.3 port 2: Connection refused", "ssh://box:2: nothing listens for ssh at 172.17.0.3, port 2"),
        ("-- box", "@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.", "ssh://box: the host key of box has changed"),
        ("-- box", "bash: line 1: docker: command not found", "docker cannot be run on box"),
    ],
)  # fmt: skip
def test_what_ssh_says_of_an_engine_behind_it_is_said_as_of_ssh(words, said, cause):
    error = explain(1, BY_SSH.format(words=words, code=127 if "bash" in said else 255, said=said))
    assert cause in error.message
    assert error.exit_code == EXIT_ENGINE
    assert error.hint
    assert "{" not in error.hint


@pytest.mark.parametrize(
    "text",
    [
        "Error starting userland proxy: listen tcp4 127.0.0.1:18000: bind: address already in use",
        "Bind for 127.0.0.1:18000 failed: port is already allocated",
        "failed to bind host port for 127.0.0.1:18000:172.18.0.2:8000/tcp: address already in use",
        "failed to bind host port 127.0.0.1:18000/tcp: address already in use",
        "rootlessport listen tcp 127.0.0.1:18000: bind: address already in use",
    ],
)
def test_a_port_that_is_taken_is_named_by_what_moves_it(text):
    def hint(service, port="18000"):
        model = {"services": {service: {"ports": [{"published": port, "target": 8000}]}, "idle": {}}}
        return with_port(explain(1, text), model, "web-debug").hint

    assert hint("web-debug").endswith("such as DKDBG_APP_PORT_8000=18001")
    assert (
        hint("db")
        == "the service db publishes port 18000: stop the program that uses it, or publish another port"
    )
    assert hint("web-debug", port="5678") == explain(1, text).hint


def test_a_renamed_service_is_a_case_for_init_and_another_failure_or_an_unknown_message_stays_what_it_is():
    renamed = 'cannot extend service "{}" in /repo/compose.yaml: service "base" not found'
    for name in ("app-debug", "app-dkdbg", "app-dkdbg-2"):
        assert explain(1, renamed.format(name)).hint.startswith("dkdbg init ")
    assert explain(1, renamed.format("app")).hint == "docker compose --profile debug config shows where"
    error = explain(1, "container x-app-debug-1 exited (3)")
    assert with_port(error, {"services": {}}, "web-debug") is error
    error = explain(17, "line one\nsomething nobody has seen")
    assert "something nobody has seen" in error.message
    assert "17" in error.message
    build = 'ERROR: exit 1\nfailed to solve: process "/bin/sh -c pip install ." did not complete successfully'
    assert explain(17, build).hint.startswith("dkdbg verify ")


def test_who_has_written_the_dockerfile_decides_where_another_base_image_is_named():
    hint = explain(
        1, "failed to solve: python:3: failed to resolve source metadata for docker.io/library/python:3"
    ).hint
    assert (
        "DKDBG_BASE=registry.example/python:3.11 if dkdbg init wrote the Dockerfile, else its FROM line"
        in hint
    )


UNSET = 'level=warning msg="The \\"DATA\\" variable is not set. Defaulting to a blank string."\n'


@pytest.mark.parametrize(
    "said",
    [
        "invalid spec: :/data: empty section between colons",
        'service "a" has neither an image nor a build context specified: invalid compose project',
        " a Pulling \ninvalid reference format",
        "unable to get image 'python:': Error response from daemon: invalid reference format",
        "No port specified: 80:<empty>",
        "error decoding 'services[a].shm_size': invalid size: ''",
        "error decoding 'services[a].extra_hosts': invalid additional host, missing IP: ",
        "env file  not found: stat : no such file or directory",
        "error while interpolating services.a.privileged: failed to cast to expected type: invalid boolean: ",
        'service "a" depends on undefined service "": invalid compose project',
        "Error response from daemon: the working directory 'app/' is invalid, it needs to be an absolute path",
        'Error response from daemon: error gathering device information while adding custom device "": no such file',
    ],
)
def test_variables_without_a_value_are_named_where_compose_misses_something(said):
    """As compose 2.26 and Docker Engine 26 say it of `${DATA}`."""
    error = explain(15, UNSET * 2 + said)
    assert said.splitlines()[-1].strip() in error.message
    assert "variables that are not set: DATA\n" in error.message
    assert error.hint == "give DATA a value in .env or in the environment"
    assert "DATA" not in explain(15, said).message + explain(15, said).hint


@pytest.mark.parametrize(
    "said",
    [
        'failed to solve: process "/bin/sh -c pip install ." did not complete successfully: exit code: 1',
        "Error response from daemon: network shop_default not found",
        "env file .env.prod not found: stat .env.prod: no such file or directory",
        "invalid boolean: perhaps",
    ],
)
def test_variables_without_a_value_are_not_blamed_for_anything_else(said):
    error = explain(15, UNSET + said)
    assert "DATA a value" not in error.hint
    assert "not set:" not in error.message.partition("engine:")[0]


def project(**service):
    return {"services": {"app-debug": service, "db": {"ports": [{"target": 5678, "host_ip": "0.0.0.0"}]}}}


@pytest.mark.parametrize(
    ("service", "found"),
    [
        ({"ports": [{"target": 5678, "host_ip": "127.0.0.1"}, {"target": 8000}]}, ()),
        ({"ports": [{"target": 5678, "host_ip": "::1"}]}, ()),
        ({"ports": [{"target": 5678}]}, ("0.0.0.0",)),
        ({"ports": [{"target": 5678, "host_ip": "127.0.0.1"}, {"target": 5678, "host_ip": "10.0.0.5"}]}, ("10.0.0.5",)),
        ({"network_mode": "host", "environment": {"DKDBG_HOST": "127.0.0.1"}}, ()),
        ({"network_mode": "host", "environment": {"DKDBG_HOST": "0.0.0.0"}}, ("0.0.0.0",)),
        ({}, ()),
    ],
)  # fmt: skip
def test_an_address_that_other_machines_reach_is_found(service, found):
    assert open_addresses(project(**service), "app-debug", 5678) == found


@pytest.mark.parametrize("separator", [":", ";"])
def test_the_folder_of_a_project_is_that_of_its_first_file_with_any_separator(tmp_path, separator):
    (tmp_path / ".env").write_text(
        f"COMPOSE_PATH_SEPARATOR={separator}\nCOMPOSE_FILE=deploy/a.yaml{separator}other/b.yaml\n"
    )
    assert containers.project_folder(tmp_path) == os.path.realpath(tmp_path / "deploy")


@pytest.mark.parametrize("unit", ["connection refused", "dial unix ", "path "])
@pytest.mark.parametrize("end", ["", "\n"])
def test_what_a_build_prints_keeps_no_error_waiting(unit, end):
    began = time.monotonic()
    explain(1, (unit * (1000 // len(unit)) + end) * 300)
    assert time.monotonic() - began < 60


def test_the_folders_that_the_images_own_are_mounted_over_are_made_here_not_by_the_engine(tmp_path):
    mounts = [
        {"type": "bind", "source": str(tmp_path), "target": "/app"},
        {"type": "bind", "source": str(tmp_path / "src"), "target": "/app/src"},
        {"type": "volume", "target": "/app/src/.venv"},
    ]
    masks = ("/app/.venv", "/app/src/.venv", "/elsewhere/.venv", "/app/link/.venv")
    (tmp_path.parent / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path.parent / "outside")
    service = DebugService(
        name="a", compose_file="c", port=1, gpu=False, host_network=False, token="none", masks=masks
    )
    make_mount_points({"services": {"a": {"volumes": mounts}}}, service)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        ".venv",
        "link",
        "src",
        "src/.venv",
    ]
    assert not list((tmp_path.parent / "outside").iterdir())


@pytest.mark.parametrize(("mounted", "replaced"), [("/w", (("data", "/w"),)), ("/w/src", ())])
def test_volumes_of_the_users_service_that_our_mounts_replace_are_known(mounted, replaced):
    volumes = [{"type": "volume", "source": "data", "target": "/w"}, {"type": "volume", "target": "/w/src"}]
    debug = {
        "environment": {ENV_STANDS_FOR: "app"},
        "volumes": [{"type": "bind", "source": "/r", "target": mounted}],
    }
    model = {"services": {"app": {"volumes": volumes}, "app-debug": debug}}
    assert replaced_volumes(model, "app-debug") == replaced
