"""A hostile worker of Ray, with an adapter of its own, which an editor has attached to through the Ray proxy."""

import contextlib
import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from dkdbg.agent.dap import frames
from dkdbg.agent.ray import child_proxy, worker_registry
from dkdbg.agent.ray.dashboard import Worker
from dkdbg.agent.ray.editor import Editor

LIMIT = 60.0


def event(name: str, **body: object) -> bytes:
    return frames.encode({"type": "event", "event": name, "body": body})


def request(number: int, command: str, **arguments: object) -> bytes:
    return frames.encode({"seq": number, "type": "request", "command": command, "arguments": arguments})


def forks(pids: object) -> bytes:
    return b"".join(event("debugpyAttach", subProcessId=each) for each in pids)


GREETING = event("output")


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def registry(listener):
    """The registry of a cluster with one worker, which waits, and the root editor's view of it as `announced()`."""
    port = listener.getsockname()[1]
    row = {"worker_id": "w1", "ip": "127.0.0.1", "debugger_port": port, "num_paused_threads": 1}
    shown = []
    found = worker_registry.WorkerRegistry(
        SimpleNamespace(workers=lambda _: [Worker(row, task="step")]),
        lambda entries, _: shown.append(entries),
    )
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()
    end = time.monotonic() + LIMIT
    while not (shown and shown[-1]) and time.monotonic() < end:
        time.sleep(0.01)
    yield SimpleNamespace(
        registry=found, forked=lambda: [each.forked for each in found._entries.values() if each.forked]
    )
    found.stop()
    thread.join(LIMIT)


@contextlib.contextmanager
def attached(registry, listener):
    """Attach an editor to the worker: its connection, and that of the worker's adapter; yields both and its thread."""
    editor, client = socket.socketpair()
    number = next(iter(registry._entries.values())).number
    parser = frames.FrameParser()
    parser.feed(request(2, "attach", subProcessId=number))
    first = json.dumps({"seq": 1, "type": "request", "command": "initialize"}).encode()
    thread = threading.Thread(target=Editor(client, registry).serve, args=(first, parser), daemon=True)
    thread.start()
    listener.settimeout(LIMIT)
    adapter, _ = listener.accept()
    adapter.settimeout(LIMIT)
    adapter.sendall(GREETING)
    try:
        yield editor, adapter, thread
    finally:
        for each in (editor, adapter):
            each.close()
        thread.join(LIMIT)
        client.close()


def heard(editor, name):
    """Read up to an event of this name."""
    editor.settimeout(LIMIT)
    said = map(frames.decode, frames.received(editor.recv, frames.FrameParser()))
    next(each for each in said if each.get("event") == name)


@pytest.mark.attack(0)
def test_a_worker_of_ray_fills_no_editor_with_processes_that_it_has_not_forked(registry, listener):
    """Announces as forked what is no pid, one process a thousand times, and ten thousand of them: only what may be pids is listed, each once, and 256 at most."""
    registry.registry.is_watched = lambda: True
    with attached(registry.registry, listener) as (editor, adapter, _):
        odd = (True, False, -1, 0, 1 << 22, 10**300, 1.5, "7", None, [7], {})
        adapter.sendall(forks(odd) + forks([7] * 1000) + event("first"))
        heard(editor, "first")
        assert registry.forked() == [7]
        before = registry.registry._next
        listener.close()  # the rest is not let run either
        adapter.sendall(forks(range(1, 10_000)) + event("second"))
        heard(editor, "second")
        assert len(registry.forked()) == worker_registry.MAX_FORKED
        assert registry.registry._next - before == worker_registry.MAX_FORKED - 1


@pytest.mark.attack(0)
def test_a_worker_of_ray_names_no_process_by_what_is_no_announcement(registry, listener):
    """Announces processes with what is no announcement, a rank that is not a number, and a script with a name of 1 MB: each has a short name, and the session goes on."""
    registry.registry.is_watched = lambda: True
    argv = ["python", "x" * (1 << 20)]
    whole = {"pid": 1, "ppid": 1, "argv": argv, "started": 1.0, "env": {}, "origin": ""}
    odd = ([], 7, {"pid": []}, whole | {"started": 10**400}, whole | {"origin": "rank:x", "rank": 3}, whole | {"env": 7}, whole)  # fmt: skip
    with attached(registry.registry, listener) as (editor, adapter, _):
        for pid, each in enumerate(odd, 1):
            adapter.sendall(event("debugpyAttach", subProcessId=pid, dkdbgAnnounced=each))
        adapter.sendall(event("last"))
        heard(editor, "last")
    names = [each.name.partition(": ")[2] for each in registry.registry._entries.values() if each.forked]
    children = [f"child ({pid})" for pid in range(1, len(odd))]
    children[4] = "worker x of rank 3 (5)"  # its own words, as short as any
    assert names == [*children, f"{'x' * 100} ({len(odd)})"]


@pytest.mark.attack(0)
def test_a_worker_of_ray_ends_no_session_by_where_it_says_it_is(registry, listener):
    """Answers a stackTrace by what is not a number, with a path of 1 MB, and stops twenty thousand threads: the session goes on, and a position is short."""
    with attached(registry.registry, listener) as (editor, adapter, _):
        (entry,) = registry.registry._entries.values()
        editor.sendall(request(3, "stackTrace", threadId=1))
        asked = (frames.decode(each) for each in frames.received(adapter.recv, frames.FrameParser()))
        next(each for each in asked if each.get("command") == "stackTrace")
        stops = [event("stopped", threadId=each) for each in range(20_000)]
        top = {"line": 1, "source": {"path": "x" * (1 << 20)}}
        answer = {"type": "response", "command": "stackTrace", "body": {"stackFrames": [top]}}
        answers = [frames.encode({**answer, "request_seq": each}) for each in ([], {}, 3)]
        for part, last in ((stops[:2] + answers, "first"), (stops[2:], "second")):
            sent = b"".join(part) + event(last)
            threading.Thread(target=adapter.sendall, args=(sent,), daemon=True).start()
            heard(editor, last)
            assert len(entry.stopped) == (len("x" * 100 + ":1 (pause)") if last == "first" else len("pause"))
        assert len(entry.proxy.stops.reasons) == 10_000


@pytest.mark.attack(0)
def test_a_worker_of_ray_that_does_not_read_keeps_no_other_worker_from_being_told_of_a_hold(
    registry, listener
):
    """Reads nothing of its session until what an editor sends to it waits: the others are told that a process is held, and are listed."""
    evaluate = request(3, "evaluate", expression="x" * (1 << 20))
    with attached(registry.registry, listener) as (editor, _, _):
        (entry,) = registry.registry._entries.values()
        editor.setblocking(True)
        flood = threading.Thread(target=_send_all, args=(editor, evaluate * 64), daemon=True)
        flood.start()
        locked = 0
        end = time.monotonic() + LIMIT
        while locked < 50 and time.monotonic() < end:  # one send takes microseconds
            time.sleep(0.01)
            is_locked = entry.proxy is not None and entry.proxy._worker_lock.locked()
            locked = locked + 1 if is_locked else 0
        assert locked == 50
        entry.guarded = True
        telling = threading.Thread(target=registry.registry.tell_held, daemon=True)
        telling.start()
        telling.join(LIMIT / 4)
        assert not telling.is_alive()


def _send_all(sock, data):
    with contextlib.suppress(OSError):
        sock.sendall(data)


@pytest.mark.attack(0)
@pytest.mark.parametrize("floods", [False, True], ids=["drips", "floods"])
def test_a_worker_of_ray_that_never_releases_a_process_holds_no_thread(
    registry, listener, monkeypatch, floods
):
    """Answers the release of a process it has announced with events without end, and announces more: the session ends once the editor leaves."""
    monkeypatch.setattr(child_proxy, "_RELEASE_TIMEOUT_S", 0.5)
    answered, releasing = threading.Event(), []

    def answer():
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                threading.Thread(target=drip, args=(sock,), daemon=True).start()

    def drip(sock):
        releasing.append(sum(each.name == "dkdbg ray" for each in threading.enumerate()))
        with contextlib.suppress(OSError), sock:
            while True:
                sock.sendall(GREETING * (1000 if floods else 1))
                answered.set()
                time.sleep(0.0 if floods else 0.05)

    with attached(registry.registry, listener) as (editor, adapter, thread):
        listener.settimeout(None)
        threading.Thread(target=answer, daemon=True).start()
        adapter.sendall(forks([1] * 1000) + forks(range(1, 2000)))
        assert answered.wait(LIMIT)
        editor.close()
        thread.join(LIMIT)
        assert not thread.is_alive()
    end = time.monotonic() + LIMIT
    while registry.forked() and time.monotonic() < end:
        time.sleep(0.05)
    assert not registry.forked()
    assert max(releasing) <= worker_registry.MAX_FORKED
    listener.shutdown(socket.SHUT_RDWR)
