"""What `docker inspect` says of a container, as the line that makes one like it for the agent."""

import shlex
from typing import Any

import pytest

from dkdbg.core.again import again, of_several_lines
from dkdbg.launchers.lines.command_lines import idles

ID = "740d2d6e0b28f800ce7ac763c5a845a1cb3a28ec7181872fae6b0ff5e179b251"
PLAIN: dict[str, Any] = {
    "Id": ID, "Name": "/trainer", "Path": "python3", "Args": ["train.py", "--lr", "0.1 %"],
    "Config": {"Hostname": ID[:12], "Env": ["PATH=/usr/bin"], "User": "", "WorkingDir": "", "Healthcheck": None},
    "HostConfig": {"NetworkMode": "bridge", "ShmSize": 64 << 20, "Runtime": "runc", "IpcMode": "private"},
    "NetworkSettings": {"Networks": {"bridge": {"Aliases": None}}},
}  # fmt: skip


def made(words: tuple[str, ...] = ("python3", "train.py"), **changed: Any) -> str:
    inspected = {**PLAIN, **changed}
    for key in ("Config", "HostConfig", "NetworkSettings"):
        inspected[key] = {**PLAIN[key], **changed.get(key, {})}
    return again(inspected, words, image="train:1")


def options(**changed: Any) -> str:
    """What stands between what each such line has."""
    line = made(**changed)
    begin, end = "--volumes-from trainer --entrypoint sleep", " train:1 infinity && "
    return line[line.index(begin) + len(begin) : line.index(end)].strip()


def test_the_former_one_is_stopped_when_the_new_one_is_there_with_its_networks_and_the_new_one_goes_with_its_program():
    *_, created = made().partition(" | ")
    steps = created.split(" && ")
    assert steps[0].startswith(
        "docker create --name trainer-dkdbg --env-file /dev/stdin --volumes-from trainer "
    )
    assert steps[1:3] == ["docker stop trainer", "docker start trainer-dkdbg"]
    assert steps[3] == (
        "{ dkdbg run --on docker://trainer-dkdbg --wait --attach -- python3 train.py --lr '0.1 %'; "
        "docker rm --force trainer-dkdbg; }"
    )
    assert options() == ""
    networks = {"bridge": {}, "second": {"Aliases": ["db client"]}}
    line = made(NetworkSettings={"Networks": networks})
    assert " && docker network connect --alias 'db client' second trainer-dkdbg && docker stop " in line


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"Config": {"User": "1234:1234", "WorkingDir": "/my code"}}, "--user 1234:1234 --workdir '/my code'"),
        ({"Config": {"Healthcheck": {"Test": ["CMD", "true"]}}}, "--no-healthcheck"),
        ({"Config": {"Hostname": "box"}}, "--hostname box"),
        ({"Config": {"Hostname": "vm"}, "HostConfig": {"NetworkMode": "host"}}, "--network host"),
        ({"HostConfig": {"NetworkMode": "container:abc"}}, "--network container:abc"),
        (
            {
                "HostConfig": {"NetworkMode": "shop_default"},
                "NetworkSettings": {"Networks": {"shop_default": {"Aliases": ["web", ID[:12]]}}},
            },
            "--network shop_default --network-alias web",
        ),
        (
            {"HostConfig": {"PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}], "53/udp": [{"HostIp": "", "HostPort": "53"}], "90/tcp": [{"HostIp": "::1", "HostPort": ""}], "91/tcp": [{}]}}},
            "--publish 127.0.0.1:8080:80/tcp --publish 53:53/udp --publish '[::1]::90/tcp' --publish 91/tcp",
        ),
        ({"HostConfig": {"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}}, "--gpus all"),
        (
            {"HostConfig": {"DeviceRequests": [{"Count": 0, "DeviceIDs": ["0", "2"], "Capabilities": [["gpu"]]}]}},
            "--gpus '\"device=0,2\"'",
        ),
        (
            {"HostConfig": {"DeviceRequests": [{"Count": 2, "Capabilities": [["gpu", "utility"]]}]}},
            "--gpus '2,\"capabilities=gpu,utility\"'",
        ),
        (
            {"HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}], "Runtime": "nvidia"}},
            "--device nvidia.com/gpu=all --runtime nvidia",
        ),
        (
            {"HostConfig": {"Devices": [{"PathOnHost": "/dev/kfd", "PathInContainer": "/dev/kfd", "CgroupPermissions": "rw"}]}},
            "--device /dev/kfd:/dev/kfd:rw",
        ),
        ({"HostConfig": {"ShmSize": 1 << 30, "NanoCpus": 1500000000, "Memory": 1 << 30}}, "--cpus 1.5 --shm-size 1073741824 --memory 1073741824"),
        ({"HostConfig": {"Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}]}}, "--ulimit memlock=-1:-1"),
        ({"HostConfig": {"IpcMode": "host", "PidMode": "host"}}, "--ipc host --pid host"),
        ({"HostConfig": {"SecurityOpt": ["no-new-privileges", 'seccomp={"a": 1}']}}, "--security-opt no-new-privileges"),
        ({"HostConfig": {"Init": True, "ReadonlyRootfs": True, "CapAdd": ["SYS_PTRACE"]}}, "--init --read-only --cap-add SYS_PTRACE"),
        (
            {"HostConfig": {"Tmpfs": {"/a": "size=1m"}, "Mounts": [{"Type": "tmpfs", "Target": "/b"}, {"Type": "bind", "Target": "/c"}]}},
            "--tmpfs /a:size=1m --tmpfs /b",
        ),
    ],
)  # fmt: skip
def test_what_the_engine_knows_is_asked_for_again(changed, expected):
    assert options(**changed) == expected


def test_no_value_of_the_environment_is_in_it_and_a_name_of_the_containers_stays_one_word():
    env = ["TOKEN=s3cret", "KEY=-----BEGIN\ns3cret\nTOKEN=b", "odd name=a\nb", "EMPTY"]
    line = made(Config={"Env": env})
    assert "s3cret" not in line
    assert "KEY" not in line  # nor the value that whoever runs the line has for this name
    assert of_several_lines({"Config": {"Env": env}}) == ("KEY",)
    line = made(Path="/bin/sh", Args=["-c", "python train.py; rm -rf $HOME && `id`"])
    inner = line[line.index("{ ") + 2 : line.index("; docker rm --force")]
    assert shlex.split(inner)[-1] == "python train.py; rm -rf $HOME && `id`"
    assert made(Args=["\x1b[2J"]) == ""
    assert made(Args=["a\nb"]) == ""


@pytest.mark.parametrize(
    "own", [("sleep", "3600"), ("bash",), ("sh", "-c", " "), ("tail", "-f", "/dev/null"), ("",)]
)
def test_of_a_container_that_only_waits_the_python_in_it_runs(own):
    path, *args = own
    line = made(words=("python3", "-m", "job"), Path=path, Args=args)
    assert ("-- python3 -m job; docker rm" in line) == (own != ("sh", "-c", " "))


def test_a_shell_with_nothing_to_do_is_no_error():
    assert not idles(())
    assert not idles(("sh", "-c", " "))
    assert idles(("sleep", "3600"))
