"""The page on NeMo RL: breakpoints of an editor stop in a driver and in chosen actors, without a word in the code.

Its commands are run as they stand there, but for the place: the container of the head, where the page has a Slurm job.
"""

import contextlib
import shlex
import shutil
import subprocess
import time

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import dkdbg
from tests.pages import Page, environment
from tests.ray.cluster import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("ray")]

LIMIT = 300.0
#: The note on a cluster whose workers are not debugged.
OUTSIDE = "has joined a Ray cluster that runs outside of this session"
DRIVER = """\
    import os

    import ray

    ray.init(address="auto", namespace="run")


    @ray.remote
    def crunch(n):
        total = n * 2
        return total  # crunch


    @ray.remote
    class Policy:
        def __init__(self):
            self.weight = 7

        def step(self, batch):
            loss = batch + self.weight
            return loss  # step

        def fall(self):
            os._exit(1)


    def main():
        policy = Policy.options(resources={"node1": 1}, name="trainer", max_restarts=1).remote()
        loss = ray.get(policy.step.remote(5))
        total = ray.get(crunch.options(resources={"node1": 1}).remote(4))
        print("first", loss, total)  # main
        try:
            ray.get(policy.fall.remote())
        except ray.exceptions.RayError:
            pass
        while True:
            try:
                print("again", ray.get(policy.step.remote(6)))
                break
            except ray.exceptions.ActorUnavailableError:
                pass


    main()
    """


def lines(program):
    return {
        text.rpartition("# ")[2]: number
        for number, text in enumerate(program.splitlines(), 1)
        if "  # " in text
    }


@pytest.fixture
def page():
    found = Page.of("recipes/nemo-rl.md")
    with found.all_run():
        yield found


@pytest.fixture
def typed(ray, page):
    """A command of the page as words, with the head's container for a node of the job."""
    return lambda beginning: shlex.split(
        page.take(beginning).replace("slurm://login/7", f"docker://{ray.nodes[0]}")
    )


def started(words, folder, said):
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, text=True, cwd=folder, env=environment(),
    )  # fmt: skip


@pytest.fixture
def driven(ray, tmp_path):
    """Run a command with `dkdbg run --wait` and attach an editor, which is yielded; the command must print `result`."""

    @contextlib.contextmanager
    def run(command, result, *, target="", workers="*", **options):
        at = target or f"ray+docker://{ray.nodes[0]}"
        selected = () if target else ("--workers", workers)
        words = ["dkdbg", "run", "--wait", "--on", at, *selected, "--", *command.split()]
        said = tmp_path / "said"
        with (
            said.open("w") as file,
            started(words, tmp_path, file) as process,
            attach_proxy(tmp_path, at) as proxy,
            Debugger(AttachOptions(port=proxy.port, **options)) as debugger,
        ):
            yield debugger
            assert process.wait(LIMIT) == 0, said.read_text()
        text = said.read_text()
        assert result in text
        assert (OUTSIDE in text) is (OUTSIDE in result)

    return run


@pytest.fixture
def running(ray, typed, tmp_path):
    """The driver of the page, waiting for an editor, with the old debugger of Ray asked for."""
    ray.write("run.py", DRIVER)
    words = typed("dkdbg run")
    cut = words.index("--") + 1
    words[cut:cut] = ["env", "RAY_DEBUG=legacy"]
    with (tmp_path / "said").open("w") as said:
        process = started(words, tmp_path, said)
        yield process, tmp_path / "said"
        if process.poll() is None:
            process.terminate()
            process.wait(LIMIT)


@pytest.mark.core
def test_a_driver_and_a_chosen_actor_stop_where_the_editor_says_and_a_restarted_actor_again(
    running, typed, tmp_path
):
    process, said = running
    line = lines(DRIVER)
    target = typed("dkdbg attach")[2]
    with attach_proxy(tmp_path, target) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
        debugger.set_breakpoints("/job/run.py", list(line.values()))
        debugger.attach(timeout=LIMIT)

        actor = debugger.wait_stopped(LIMIT)
        frame = debugger.stack(actor, timeout=LIMIT)[0]
        assert (frame.path, frame.line) == ("/job/run.py", line["step"])
        assert debugger.local_values(frame, timeout=LIMIT)["loss"] == "12"
        assert ": Policy (trainer), pid " in actor.session.name
        seen = subprocess.run(
            typed("dkdbg ps"), capture_output=True, text=True, check=False, timeout=LIMIT, env=environment()
        )
        assert "run.py" in seen.stdout, seen.stderr
        assert "RAY_DEBUG" not in seen.stdout, "the session is called as the program behind env"
        assert f"at run.py:{line['step']} (breakpoint)" in seen.stdout
        debugger.continue_(actor, timeout=LIMIT)

        driver = debugger.wait_stopped(LIMIT)  # not in crunch, which no pattern names
        frame = debugger.stack(driver, timeout=LIMIT)[0]
        assert (frame.path, frame.line) == ("/job/run.py", line["main"])
        values = debugger.local_values(frame, timeout=LIMIT)
        assert (values["loss"], values["total"]) == ("12", "8")
        debugger.continue_(driver, timeout=LIMIT)

        again = debugger.wait_stopped(LIMIT)
        frame = debugger.stack(again, timeout=LIMIT)[0]
        assert frame.line == line["step"]
        assert debugger.local_values(frame, timeout=LIMIT)["loss"] == "13"
        assert again.session.pid != actor.session.pid
        debugger.continue_(again, timeout=LIMIT)
        assert process.wait(LIMIT) == 0
    told = said.read_text()
    assert "first 12 8" in told
    assert "again 13" in told
    assert "RAY_DEBUG=legacy is set: with it breakpoint() in a worker waits for `ray debug`" in told


ALONE = """\
    import os
    import sys

    import ray

    ray.init(address="auto")
    print("alone", os.environ["PYTHONPATH"], "_dkdbg.ray.driver" in sys.modules, ray.get(ray.remote(lambda: 0).remote()))
    """


def test_a_driver_with_a_path_of_its_own_runs_with_that_path(ray, tmp_path):
    """The hook of dkdbg comes by another way there, and is asked too (issue 14)."""
    ray.write("alone.py", ALONE)
    (ray.folder / "dkdbg").mkdir()  # a package without a file, before anything that the hook finds
    program = ("env", "PYTHONPATH=/opt/ray", "python3", "/job/alone.py")
    done = dkdbg(tmp_path, "run", "--on", f"ray+docker://{ray.nodes[0]}", "--workers", "*", "--", *program)
    (ray.folder / "dkdbg").rmdir()
    assert "alone /opt/ray True 0" in done.stdout, done.stderr
    assert "cannot be debugged" not in done.stdout + done.stderr
    assert done.returncode == 0


WAITING = """\
    import ray

    ray.init(address="auto", namespace="waiting")


    @ray.remote(num_cpus=0.1)
    class Policy:
        def step(self, batch):
            loss = batch + 7
            breakpoint()
            return loss


    print("got", ray.get(Policy.remote().step.remote(5)))
    """


def test_breakpoint_in_an_actor_waits_for_an_editor_under_dkdbg_run_too(ray, tmp_path):
    """It was passed over where no editor was attached, and plain Ray waits (found/ray.md, BAD 2)."""
    ray.write("waiting.py", WAITING)
    target = f"ray+docker://{ray.nodes[0]}"
    words = ["dkdbg", "run", "--on", target, "--workers", "*", "--", "python3", "/job/waiting.py"]
    with started(words, tmp_path, subprocess.PIPE) as process:
        wait_until(lambda: "paused" in dkdbg(tmp_path, "ps", target).stdout, "nothing waits")
        with attach_proxy(tmp_path, target) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
            debugger.attach(timeout=LIMIT)
            stop = debugger.wait_stopped(LIMIT)
            frame = debugger.stack(stop, timeout=LIMIT)[0]
            assert frame.path == "/job/waiting.py"
            assert debugger.local_values(frame, timeout=LIMIT)["loss"] == "12"
            debugger.continue_(stop, timeout=LIMIT)
            assert process.wait(LIMIT) == 0
        assert "got 12" in process.stdout.read()


LEAVING = """\
    import os
    import time

    import ray

    import _dkdbg.ray.driver as driver

    known = driver._wait
    driver._wait = lambda session: known(session) and 900.0
    ray.init(address="auto", namespace="leaving")
    print("up", flush=True)
    while not os.path.exists("/job/left"):
        time.sleep(0.05)
    print("got", ray.get(ray.remote(lambda: 12).remote()))
    """


def test_a_worker_that_opens_after_the_editor_has_left_waits_for_none(ray, driven):
    """Each waited for 30 s at least, here for longer than the test."""
    ray.write("leaving.py", LEAVING)
    with driven("python3 /job/leaving.py", "got 12") as debugger:
        debugger.attach(timeout=LIMIT)
        debugger.wait_output("up", timeout=LIMIT)
        debugger.disconnect()
        (ray.folder / "left").touch()


CALLING = """\
    import subprocess
    import sys

    import ray

    ray.init(address="auto", namespace="calling")
    print("got", ray.get(ray.remote(lambda: subprocess.call([sys.executable, "/job/called.py"])).remote()))
    """


def test_breakpoint_in_a_program_that_a_task_starts_stops_there(ray, driven):
    """Ray's own `breakpoint()`, which the program inherits, raises an AttributeError there (issue 31)."""
    ray.write("calling.py", CALLING)
    ray.write("called.py", "code = 3\nbreakpoint()\nraise SystemExit(code)\n")
    with driven("python3 /job/calling.py", "got 3") as debugger:
        debugger.attach(timeout=LIMIT)
        stop = debugger.wait_stopped(LIMIT)
        frame = debugger.stack(stop, timeout=LIMIT)[0]
        assert (frame.path, debugger.local_values(frame, timeout=LIMIT)["code"]) == ("/job/called.py", "3")
        debugger.continue_(stop, timeout=LIMIT)


LIMITED = """\
    import asyncio
    import subprocess
    import sys

    import ray

    ray.init(address="auto", namespace="limited")


    @ray.remote(num_cpus=0.1)
    class Policy:
        def step(self, batch):
            return batch + 7  # step


    @ray.remote(num_cpus=0.1)
    class Trainer:
        def step(self, policy):
            return ray.get(policy.step.remote(6), timeout=10)

        def program(self):
            return subprocess.call([sys.executable, "/job/executed.py"], timeout=10)


    @ray.remote(num_cpus=0.1)
    class Server:
        def answer(self):
            return asyncio.SelectorEventLoop().run_until_complete(asyncio.sleep(0.05, 42))


    policy, trainer, server = Policy.remote(), Trainer.remote(), Server.options(name="server").remote()
    ray.get([server.__ray_ready__.remote(), policy.__ray_ready__.remote(), trainer.__ray_ready__.remote()])
    print("got", ray.get(policy.step.remote(5), timeout=10), *ray.get([trainer.step.remote(policy), trainer.program.remote()]))
    """
EXECUTED = """\
import sys


def count():
    sys.exit(3)  # child


if __name__ == "__main__":
    count()
"""


def test_timeouts_of_a_driver_and_of_workers_stop_while_another_process_is_held(ray, driven):
    """`ray.get` gave up, as the other processes did not know of a worker's hold (issue 31)."""
    ray.write("limited.py", LIMITED)
    ray.write("executed.py", EXECUTED)
    with driven("python3 /job/limited.py", "got 12 13 3") as debugger:
        debugger.set_breakpoints("/job/limited.py", [lines(LIMITED)["step"]])
        debugger.set_breakpoints("/job/executed.py", [lines(EXECUTED)["child"]])
        debugger.attach(timeout=LIMIT)
        held: list[str] = []
        for _ in range(3):
            stop = debugger.wait_stopped(LIMIT)
            end = time.monotonic() + 15  # more than the program's limit
            wait_until(lambda: time.monotonic() > end, "time does not pass")  # noqa: B023
            frame = debugger.stack(stop, timeout=LIMIT)[0]
            held.append(frame.name)
            if frame.name == "step":
                asked = "__import__('ray').get(__import__('ray').get_actor('server').answer.remote())"
                assert debugger.evaluate(asked, frame, timeout=LIMIT) == "42"
            debugger.continue_(stop, timeout=LIMIT)
    assert sorted(held) == ["count", "step", "step"]


#: Each stands in for its library. `threaded` and `grouped` run in threads that C++ makes. They take no arguments: where
#: Ray deserializes arguments, it asks `threading` for the thread, which pydevd knows from then on.
LIBRARIES = """\
    import ray
    import ray.train
    from ray import serve, tune
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    ray.init(address="auto", namespace="libraries")


    @ray.remote(num_cpus=0.1, max_concurrency=2)
    class Threaded:
        def step(self):
            return 1  # threaded


    @ray.remote(num_cpus=0.1, concurrency_groups={"io": 2})
    class Groups:
        @ray.method(concurrency_group="io")
        def read(self):
            return 2  # grouped


    def trial(config):
        tune.report({"score": config["x"]})  # tune


    def loop():
        ray.train.report({"loss": 1})  # train


    class Double:
        def __call__(self, batch):
            return {"id": batch["id"] * 2}  # actor of data


    def one_more(row):
        return {"id": row["id"] + 1}  # task of data


    @serve.deployment(health_check_timeout_s=600)
    class Model:
        def __call__(self, batch):
            return batch + 3  # serve


    def main():
        threaded = Threaded.remote()
        print("threaded", [ray.get(threaded.step.remote()) for _ in range(4)])
        print("grouped", ray.get(Groups.remote().read.remote()))
        print("tune", tune.Tuner(trial, param_space={"x": 4}).fit()[0].metrics["score"])
        print("train", DataParallelTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=1)).fit().error)
        print("task", ray.data.range(1).map(one_more).take_all())
        print("actor", ray.data.range(1).map_batches(Double, concurrency=1).take_all())
        print("serve", serve.run(Model.bind(), route_prefix=None).remote(1).result())
        serve.shutdown()


    main()
    """


def test_what_ray_s_libraries_and_its_threads_run_of_the_user_s_stops(ray, driven):
    """Train, Tune, Serve and Data run it in actors and tasks of their own (found/ray.md, BAD 0 and 1)."""
    ray.write("libraries.py", LIBRARIES)
    line = lines(LIBRARIES)
    with driven("python3 /job/libraries.py", "serve 4") as debugger:
        debugger.set_breakpoints("/job/libraries.py", list(line.values()))
        debugger.attach(timeout=LIMIT)
        seen: list[int] = []
        while set(seen) != set(line.values()):
            stop = debugger.wait_stopped(LIMIT)
            seen.append(debugger.stack(stop, timeout=LIMIT)[0].line)
            debugger.continue_(stop, timeout=LIMIT)
    assert seen.count(line["threaded"]) == 4


PACKED = """\
    import ray

    ray.init(address="auto", runtime_env=ENV)


    @ray.remote(num_cpus=0.1)
    def count(batch):
        import packed_module

        return packed_module.add(batch)  # task


    print("got", ray.get(count.remote(5)))  # driver
    """
PACKED_MODULE = "def add(batch):\n    return batch + 7\n"


@pytest.mark.parametrize(
    ("files", "env", "command"),
    [
        (
            ("packed/main.py", "packed/packed_module.py"), "None",
            "python3 -m ray.scripts.scripts job submit --working-dir packed -- python3 main.py",
        ),
        (
            ("packed.py", "packed/packed_module/__init__.py"), '{"py_modules": ["/job/packed/packed_module"]}',
            "python3 packed.py",
        ),
    ],
    ids=["ray job submit", "py_modules"],
)  # fmt: skip
def test_breakpoints_stop_in_a_folder_of_the_checkout_that_ray_has_packed(ray, driven, files, env, command):
    """In the driver of a submitted job as well, which Ray starts (found/ray.md, ranking 8 and 9)."""
    script, module = files
    shutil.rmtree(ray.folder / "packed", ignore_errors=True)
    (ray.folder / module).parent.mkdir(parents=True)
    program = PACKED.replace("ENV", env)
    main = str(ray.write(script, program))
    module = str(ray.write(module, PACKED_MODULE))
    wanted = {module: [2], main: list(lines(program).values())}
    options = {"path_mappings": ((str(ray.folder), "/job"),)}
    with driven(command, "got 12", **options) as debugger:
        for path, numbers in wanted.items():
            debugger.set_breakpoints(path, numbers)
        debugger.attach(timeout=LIMIT)
        seen: list[tuple[str, int]] = []
        while set(seen) != {(path, number) for path, numbers in wanted.items() for number in numbers}:
            stop = debugger.wait_stopped(LIMIT)
            frame = debugger.stack(stop, timeout=LIMIT)[0]
            seen.append((frame.path, frame.line))
            debugger.continue_(stop, timeout=LIMIT)


THREADED = """\
    import ray

    ray.init(address="local", num_cpus=1, include_dashboard=False)


    @ray.remote(num_cpus=0.1, concurrency_groups={"io": 2})
    class Groups:
        @ray.method(concurrency_group="io")
        def read(self, batch):
            return batch + 2  # grouped


    groups = Groups.remote()
    ray.get(groups.__ray_ready__.remote())
    grouped = [ray.get(groups.read.remote(0), timeout=8)]
    ready, _ = ray.wait([groups.read.remote(1)], timeout=8)
    print("grouped", [*grouped, *ray.get(ready), *[ray.get(groups.read.remote(each)) for each in (2, 3)]])
    """


def test_threads_of_a_ray_that_the_program_starts_itself_stop_and_its_timeouts_too(ray, driven):
    """Its workers are entered by the hook (found/ray.md, repro raylocal)."""
    ray.write("threaded.py", THREADED)
    line = lines(THREADED)["grouped"]
    program = "env RAY_AUTH_MODE=disabled python3 /job/threaded.py"  # else it leaves a token on the node
    with driven(program, "grouped [2, 3, 4, 5]", target=f"docker://{ray.nodes[1]}") as debugger:
        debugger.set_breakpoints("/job/threaded.py", [line])
        debugger.attach(timeout=LIMIT)
        for batch in range(4):
            stop = debugger.wait_stopped(LIMIT)
            frame = debugger.stack(stop, timeout=LIMIT)[0]
            assert (frame.line, debugger.local_values(frame, timeout=LIMIT)["batch"]) == (line, str(batch))
            time.sleep(10 if batch < 2 else 0)  # more than the limits of the driver's calls
            debugger.continue_(stop, timeout=LIMIT)


JOINED = """\
    import ray

    ray.init(address="auto", namespace="joined")


    @ray.remote
    def crunch(n):
        return n * 2  # crunch


    for each in range(2):
        print(ray.get(crunch.remote(each)))  # main
    """


def test_a_driver_that_joins_a_cluster_without_the_agent_is_told_so_and_why_knows(ray, driven, tmp_path):
    (tmp_path / "joined.py").write_text(ray.write("joined.py", JOINED).read_text())
    target, line = f"docker://{ray.nodes[0]}", lines(JOINED)
    with driven("python3 /job/joined.py", OUTSIDE, target=target) as debugger:
        debugger.set_breakpoints("/job/joined.py", [line["main"]])
        debugger.attach(timeout=LIMIT)
        debugger.continue_(debugger.wait_stopped(LIMIT), timeout=LIMIT)
        stop = debugger.wait_stopped(LIMIT)
        asked = ("why", f"joined.py:{line['crunch']}", "--on", target)
        wait_until(lambda: "[ray-outside]" in dkdbg(tmp_path, *asked).stdout, "ray-outside")
        debugger.set_breakpoints("/job/joined.py", [])
        debugger.continue_(stop, timeout=LIMIT)


def test_a_driver_that_ray_starts_on_another_node_runs_and_says_why_it_is_not_debugged(ray, tmp_path):
    submit = (
        "python3",
        "-m",
        "ray.scripts.scripts",
        "job",
        "submit",
        "--entrypoint-resources",
        '{"node1": 1}',
    )
    program = (*submit, "--", "python3", "-c", "print('ran', 6 * 7)")
    done = dkdbg(tmp_path, "run", "--on", f"ray+docker://{ray.nodes[0]}", "--workers", "*", "--", *program)
    assert (done.returncode, "\nran 42\n" in done.stdout) == (0, True), done.stdout + done.stderr
    assert "\ndkdbg: not debugged: " in done.stdout


FORKING = """\
    import multiprocessing

    import ray

    ray.init(address="auto", namespace="forking", runtime_env={"env_vars": {"PYTHONPATH": "/job/old:/opt/ray"}})


    def double(number, pipe):
        pipe.send(number * 2)  # child


    def nested(number, pipe):
        context = multiprocessing.get_context("fork")
        child = context.Process(target=double, args=(number, pipe))
        child.start()
        child.join()


    @ray.remote(num_cpus=0.1)
    class Loader:
        def load(self):
            context = multiprocessing.get_context("fork")  # actor
            ours, theirs = context.Pipe()
            children = [
                context.Process(target=each, args=(number, theirs))
                for number, each in enumerate([double, double, nested])
            ]
            for each in children:
                each.start()
            doubled = sum(ours.recv() for _ in children)
            for each in children:
                each.join()
            return doubled, [each.exitcode for each in children]


    print("got", *ray.get(Loader.remote().load.remote()))
    """


@pytest.mark.parametrize("leaves", [False, True], ids=["", "the editor has left the cluster's session"])
def test_processes_that_an_actor_forks_stop_as_those_of_a_dataloader(ray, driven, leaves):
    """Each in a session of its own; where no editor opens one, the process waits for none (issue 14).

    The workers' own debugpy is too old: they get the agent's.
    """
    (ray.folder / "old/debugpy").mkdir(parents=True, exist_ok=True)
    ray.write("old/debugpy/__init__.py", '__version__ = "1.6.0"\n')
    ray.write("forking.py", FORKING)
    line = lines(FORKING)
    with driven("python3 /job/forking.py", "got 6 [0, 0, 0]", workers="Loader") as debugger:
        debugger.set_breakpoints("/job/forking.py", [line["child"], line["actor"]])
        root = debugger.attach(timeout=LIMIT)
        actor = debugger.wait_stopped(LIMIT)
        assert debugger.stack(actor, timeout=LIMIT)[0].line == line["actor"]
        if leaves:
            root.request("disconnect", {}, timeout=LIMIT)
        debugger.continue_(actor, timeout=LIMIT)
        names = set()
        for _ in range(0 if leaves else 3):
            child = debugger.wait_stopped(LIMIT)
            assert debugger.stack(child, timeout=LIMIT)[0].line == line["child"]
            names.add(child.session.name.removeprefix(actor.session.name))
            debugger.continue_(child, timeout=LIMIT)
    assert len(names) == (0 if leaves else 3)
    assert all(each.startswith(": multiprocessing worker ForkProcess-") for each in names)


EXECUTING = """\
    import multiprocessing
    import os
    import subprocess
    import sys

    import ray

    ray.init(address="auto", runtime_env={"env_vars": {"PYTHONPATH": "/job:/opt/ray"}})
    CHILD = [sys.executable, "/job/executed.py"]


    @ray.remote(num_cpus=0.1)
    class Launcher:
        def popen(self):  # launcher
            return subprocess.call(CHILD)

        def environment(self):
            return subprocess.call(CHILD, env={"PYTHONPATH": "/job"})

        def nested(self):
            return subprocess.call([sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(%r))" % CHILD])

        def spawn(self):
            import executed

            process = multiprocessing.get_context("spawn").Process(target=executed.count)
            process.start()
            process.join()
            return process.exitcode

        def replaced(self):
            pid = os.fork()
            if not pid:
                os.execv(CHILD[0], CHILD)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


    launcher = Launcher.remote()
    ways = [launcher.popen, launcher.environment, launcher.nested, launcher.spawn, launcher.replaced]
    print("got", [ray.get(each.remote()) for each in ways])
    """


def test_programs_that_an_actor_executes_stop_as_those_of_another_program(ray, driven):
    """Each in a session of its own, by the same guarded port as its worker (issue 31)."""
    ray.write("executing.py", EXECUTING)
    ray.write("executed.py", EXECUTED)
    child = lines(EXECUTED)["child"]
    with driven("python3 /job/executing.py", "got [3, 3, 3, 3, 3]", workers="Launcher") as debugger:
        debugger.set_breakpoints("/job/executed.py", [child])
        debugger.set_breakpoints("/job/executing.py", [lines(EXECUTING)["launcher"] + 1])
        debugger.attach(timeout=LIMIT)
        debugger.continue_(debugger.wait_stopped(LIMIT), timeout=LIMIT)
        names: list[str] = []
        for _ in range(5):
            stop = debugger.wait_stopped(LIMIT)
            frame = debugger.stack(stop, timeout=LIMIT)[0]
            assert (frame.path, frame.line) == ("/job/executed.py", child)
            names.append(stop.session.name.rpartition(": ")[2].partition(" (")[0])
            debugger.continue_(stop, timeout=LIMIT)
    assert [each.split(" of ")[0] for each in names] == [
        *["executed.py"] * 3, "multiprocessing worker SpawnProcess-1", "executed.py",
    ]  # fmt: skip
