"""Fixtures of all tests; an engine test without an engine skips on a laptop and fails in CI."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import hypothesis
import pytest

from tests import leftovers
from tests.commands import command
from tests.needs import give_up

# How long an example takes is the machine's load.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

BASE_IMAGE = os.environ.get("DKDBG_TEST_BASE", "dkdbg-test/python:3.11")


#: Folders and files whose tests are all `core`; elsewhere single tests are marked so.
CORE = tuple(
    Path(__file__).with_name(folder) / name
    for folder, names in {
        "unit": [""],
        "golden": [""],
        "suite": ["test_words.py"],
        "agent": [
            "sync/test_boot.py", "sync/test_receiver.py", "test_breakpoints.py", "test_bundle.py",
            "test_broker.py", "test_frames.py", "test_listener.py", "test_rank_barrier.py", "test_hook.py", "test_identity.py",
            "test_launch.py", "test_local_users.py", "test_mapping.py", "test_naming.py",
        ],
    }.items()
    for name in names
)  # fmt: skip


# A shell starts what runs in its background with SIGINT ignored, nohup with SIGHUP; ours would inherit that. Here, as
# the conftest of a folder imports dkdbg, which notes what was ignored, before pytest_configure.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_configure(config):
    if leftovers.run_pid() == os.getpid() and not config.option.collectonly:
        leftovers.remove_of_ended_runs()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """Remove what this run has left, also when it was interrupted."""
    if leftovers.run_pid() == os.getpid() and not config.option.collectonly:
        for line in leftovers.remove_own():
            print(f"left behind by a test, removed: {line}")  # noqa: T201


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden/projects/*/expected anew"
    )


@pytest.hookimpl(tryfirst=True)  # before the option -m looks for the marks
def pytest_collection_modifyitems(items):
    """Mark pure tests as core, and sort tests that wait longest to the front, so that no worker ends long after the others."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in CORE):
            item.add_marker("core")
    items.sort(key=lambda item: item.get_closest_marker("engine") is None)


@pytest.fixture(scope="session", autouse=True)
def _no_base_image_of_this_machine():
    """Let `init` in this process know no base image: its files would depend on the images of this machine's engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dkdbg.verbs.init.inherited", lambda _: None)
        yield


def pytest_sessionfinish(session):
    """Write the failed tests and what was printed of them, for tests/run.py; xdist's `@group` is not part of a node id."""
    file = os.environ.get("DKDBG_TEST_FAILURES")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not file or reporter is None or hasattr(session.config, "workerinput"):
        return
    failed = {
        re.sub(r"@[^]@]*$", "", report.nodeid): report.longreprtext
        for outcome in ("failed", "error")
        for report in reporter.stats.get(outcome, ())
    }
    Path(file).write_text(json.dumps(failed))


def pytest_terminal_summary(terminalreporter):
    """Says what tests have measured with `record_property`: figures to look at, nothing fails by them."""
    for report in terminalreporter.getreports("passed"):
        for what, figure in getattr(report, "user_properties", ()):
            terminalreporter.write_line(f"{what}: {figure} s")


@functools.cache
def engine_lacks() -> str:
    """What an engine test needs and this machine has not; empty when it has all."""
    if shutil.which("docker") is None:
        return "no docker command"
    for probe in (
        ["docker", "info"],
        ["docker", "compose", "version"],
        ["docker", "image", "inspect", BASE_IMAGE],
    ):
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{' '.join(probe)}: {(done.stderr or done.stdout).strip()[-200:]}"
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Before any fixture: those of a module would start containers."""
    if item.get_closest_marker("engine") is None or not (lacks := engine_lacks()):
        return
    give_up(f"an engine test needs a Docker engine: {lacks}")


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch):
    """What a developer's shell sets must not change what is tested."""
    for name in list(os.environ):
        if name.startswith(("DKDBG_", "COMPOSE_")) and not name.startswith("DKDBG_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def base_image() -> str:
    """Image with python3, pip and venv: a stand-in for python:3.11-slim, built from Debian packages by .ci/base-image."""
    return BASE_IMAGE


@pytest.fixture
def start_container(base_image):
    """Start containers with these options of `docker run`, which do nothing unless words say what; they go with the test.

    Returns the name of each.
    """
    names: list[str] = []

    def start(*options, image=base_image, words=("sleep", "infinity")):
        names.append(leftovers.unique("dkdbg-test"))
        command(["docker", "run", "-d", "--init", "--name", names[-1], *options, image, *words])
        return names[-1]

    yield start
    for name in names:
        command(["docker", "rm", "-f", "-v", name], check=False)


@pytest.fixture(scope="session")
def ray_cluster(base_image, tmp_path_factory):
    """Yield a real Ray of two nodes: here, so that all tests of a worker share it."""
    from tests.ray.cluster import Cluster

    made = Cluster(tmp_path_factory.mktemp("ray"), base_image)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def ray(ray_cluster, monkeypatch):
    """The cluster without a driver, and this process's environment without a token of Ray's."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    yield ray_cluster
    ray_cluster.end_drivers()
