"""docs/recipes/pod.md: each of its commands is run, in a pod of the stand-in and, where it is built, of a real cluster."""

import signal
import subprocess
import textwrap

import pytest

from tests.engine.attach_proxies import proxy_of
from tests.engine.projects import must
from tests.engine.synced import docker
from tests.kubernetes.cluster import Pod
from tests.kubernetes.ranks import RANKS, TRAIN, all_stopped, editor
from tests.kubernetes.real.cluster import RealCluster, lacks, pod
from tests.kubernetes.runs import wait_until_no_relay_is_left
from tests.pages import Page, environment
from tests.ports import free_port
from tests.torchrun import TORCHRUN

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("kubernetes")]

WITHOUT_TORCH = """\
    import os, time


    def main():
        rank = int(os.environ["RANK"])
        while True:
            batch = [float(rank)] * 8
            time.sleep(0.01)  # breakpoint


    main()
    """


@pytest.fixture
def stand_in(cluster, made, root):
    name = made("-w", "/workspace").name
    docker("exec", "-i", name, "sh", "-c", "cat >/usr/local/bin/torchrun", stdin=TORCHRUN)
    docker("exec", name, "chmod", "755", "/usr/local/bin/torchrun")
    cluster.put(Pod("trainer", {"main": name}))
    (root / "train.py").write_text(textwrap.dedent(WITHOUT_TORCH))


@pytest.fixture
def real(tmp_path_factory, monkeypatch, root):
    """The same in a real cluster, in a pod as OpenShift's restricted-v2 admits it, with PyTorch."""
    if missing := lacks():
        pytest.skip(missing)
    made = RealCluster(tmp_path_factory.mktemp("real"))
    try:
        made.start()
        monkeypatch.setenv("KUBECONFIG", str(made.developer()))
        made.apply(pod("trainer", restricted=True))
        made.running("trainer")
        (root / "train.py").write_text(TRAIN)
        yield
    finally:
        made.stop()


@pytest.mark.parametrize("where", ["stand_in", "real"])
@pytest.mark.core
def test_the_recipe_of_a_pod_does_what_its_page_says(where, root, request):
    request.getfixturevalue(where)
    page = Page.of("recipes/pod.md")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with page.all_run():
        must(page.run("dkdbg sync", cwd=root))
        program = subprocess.Popen(page.words("dkdbg run"), cwd=root, env=environment(), **quiet)
        port = free_port()
        shell, flag, attach = page.words("dkdbg attach")
        words = [shell, flag, f"{attach} --port {port} --json"]
        try:
            with proxy_of(words, root, environment()) as attached:
                attached.wait("listening")
                (mapping,) = page.json("pathMappings")["pathMappings"]
                with editor(port, root, mapping["remoteRoot"]) as debugger:
                    stops = all_stopped(debugger)
                    names = {each.session.name for each in stops.values()}
                    assert names == {f"rank {rank}" for rank in range(RANKS)}
                    assert "pod ml/trainer" in must(page.run("dkdbg ps", cwd=root)).stdout
                assert "42" in must(page.run("dkdbg pdb", cwd=root, stdin="p 40 + 2\nq\n")).stdout
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(300)
    wait_until_no_relay_is_left()
