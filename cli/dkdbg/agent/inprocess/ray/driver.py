"""Runs in a driver of Ray: makes its workers debuggable when their task or actor is selected.

hook.py calls `set_up` once, with the runtime environment of a driver. `set_up` adds a setup function, which Ray runs in
each worker of the job on any node, and which contains all code that is needed there (`worker.py`). Nothing here may
break a driver: errors are only reported on stderr.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

#: Variable that selects tasks and actors (comma-separated shell patterns).
ENV_WORKERS = "DKDBG_RAY_WORKERS"
#: Variables in a driver that `ray job submit` has started: the folder here that is its working_dir, and the folder into
#: which Ray has unpacked that.
ENV_SOURCE, ENV_UNPACKED = "DKDBG_RAY_SOURCE", "DKDBG_RAY_UNPACKED"
#: File of a run in the session's folder, with its secret and the workers that an editor can attach to;
#: agent/ray/guard.py reads it.
_NAME = "ray-%s.json"
#: Namespace in the cluster's key-value store where workers register.
NAMESPACE = b"dkdbg"
#: Variables, see profilers/profiling.py and settings.py; modules that profiling needs, each after those that it
#: imports.
ENV_PROFILE, ENV_PROFILE_DIR = "DKDBG_PROFILE", "DKDBG_PROFILE_DIR"
_PROFILERS = ("importing", "profilers.tools", "profilers.torch_profile", "profilers.ray_profile")
_INTERVAL_S = 0.3
_SESSION = "DKDBG_SESSION_DIR"
#: Command line of a job: it sources a file that puts the driver into our session, if the driver runs on this machine.
#: `-O`: on another machine, folder and file may be another user's.
_JOB = "if [ -O {0} ] && [ -O {1} ]; then . {1}; else echo '{2}' >&2; fi; {3}"
_NOT_DEBUGGED = "dkdbg: not debugged: its `dkdbg run` has ended (as after `ray job submit --no-wait`), or runs on another machine or as another user"
#: Variables that the agent sets for a program in addition to DKDBG_*; and those DKDBG_* that are not for the job.
_SET = ("PYTHONBREAKPOINT", "PYDEVD_DISABLE_FILE_VALIDATION", "TORCH_COMPILE_DISABLE")
_NOT_OF_JOB = (ENV_SOURCE, ENV_UNPACKED)


class _State:
    run = ""  #: id of the run that the latest `ray.init()` of this process began


def set_up(runtime_env: Optional[Dict[str, Any]]) -> Any:
    """Return the runtime environment of a driver with our setup function added."""
    try:
        return _with_setup(dict(runtime_env or {}))
    except Exception as error:
        sys.stderr.write("dkdbg: Ray's workers cannot be debugged: %s: %s\n" % (type(error).__name__, error))
        return runtime_env


def wrap_submit(client: Any) -> None:
    """Make the driver of each job that this JobSubmissionClient class submits enter our session."""
    known = client.submit_job

    def submit_job(self: Any, *, entrypoint: str, **named: Any) -> Any:
        source = (named.get("runtime_env") or {}).get("working_dir")
        try:
            entrypoint = _of_our_session(entrypoint, source)
        except OSError as error:
            sys.stderr.write("dkdbg: the job cannot be debugged: %s\n" % error)
        return known(self, entrypoint=entrypoint, **named)

    client.submit_job = submit_job


def _of_our_session(entrypoint: str, source: Any) -> str:
    """Return a job's command line changed to enter our session first: it does not inherit this process's environment.

    Args:
        source: the job's working_dir: a folder here, a URI, or None.
    """
    import shlex

    variables = {
        name: value
        for name, value in os.environ.items()
        if name in _SET or (name.startswith("DKDBG_") and name not in _NOT_OF_JOB)
    }
    if isinstance(source, str) and os.path.isdir(source):
        variables[ENV_SOURCE] = os.path.realpath(source)
    hook = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook")
    lines = ['export PYTHONPATH=%s"${PYTHONPATH:+:$PYTHONPATH}"' % shlex.quote(hook)]
    lines += ["export %s=%s" % (name, shlex.quote(value)) for name, value in sorted(variables.items())]
    lines += ['export %s="$PWD"' % ENV_UNPACKED] if ENV_SOURCE in variables else []
    path = os.path.join(os.environ[_SESSION], "ray-job-%d.sh" % os.getpid())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write("\n".join(lines) + "\n")
    runtime = os.path.dirname(os.environ[_SESSION])
    return _JOB.format(shlex.quote(runtime), shlex.quote(path), _NOT_DEBUGGED, entrypoint)


def _with_setup(runtime_env: Dict[str, Any]) -> Dict[str, Any]:
    session = os.environ.get(_SESSION, "")
    run, secret = os.urandom(8).hex(), os.urandom(32).hex()
    _State.run = run
    settings = {
        "run": run, "secret": secret, "patterns": os.environ.get(ENV_WORKERS, "*"), "wait": _wait(session),
        "namespace": NAMESPACE, "modules": _modules(runtime_env),
    }  # fmt: skip
    profiler = _profiler(run)
    variables = dict(runtime_env.get("env_vars") or {})
    if "legacy" in (os.environ.get("RAY_DEBUG"), variables.get("RAY_DEBUG")):
        sys.stderr.write(
            "dkdbg: RAY_DEBUG=legacy is set: with it breakpoint() in a worker waits for `ray debug` in a terminal, and no "
            "editor sees it. This run ignores it: its driver and workers stop in the editor.\n"
        )
        os.environ["RAY_DEBUG"] = variables["RAY_DEBUG"] = "1"
        runtime_env["env_vars"] = variables
    runtime_env["worker_process_setup_hook"] = _setup(
        _read("worker.py"),
        settings,
        _files(session),
        runtime_env.get("worker_process_setup_hook"),
        profiler,
    )
    if profiler:
        profiler().follow()
    _use_our_breakpoint()
    source = _source(runtime_env)
    threading.Thread(
        target=_follow, args=(session, run, secret, source), name="dkdbg ray", daemon=True
    ).start()
    return runtime_env


def _profiler(run: str) -> Optional[Callable[[], Any]]:
    """Return a factory of ray_profile.Profiler, for this driver and its workers; None if no profiler is requested."""
    wanted = json.loads(os.environ.get(ENV_PROFILE) or "{}")
    tools = [each for each in wanted.get("tools", ()) if each["patterns"]]
    if not tools:
        return None
    settings = {
        "tools": tools, "folder": wanted["folder"] if os.environ.get(ENV_PROFILE_DIR) else "", "run": run,
        "namespace": NAMESPACE, "fallback": sys.executable,
    }  # fmt: skip
    sources = [(name, _read("../%s.py" % name.replace(".", "/"))) for name in _PROFILERS]
    sources.insert(0, ("profilers", ""))

    def make() -> Any:  # pickled by value, like the function that `_setup` returns
        import sys as system
        import types

        package = types.ModuleType("_dkdbg_ray")
        system.modules["_dkdbg_ray"] = package
        for name, source in sources:
            module = types.ModuleType("_dkdbg_ray." + name)
            parent, _, own = module.__name__.rpartition(".")
            module.__package__ = parent
            system.modules[module.__name__] = module
            setattr(system.modules[parent], own, module)
            exec(compile(source, "<dkdbg %s>" % name, "exec"), vars(module))  # noqa: S102
        return system.modules["_dkdbg_ray.profilers.ray_profile"].Profiler(settings)

    return make


def _setup(
    source: str, settings: Dict[str, Any], files: bytes, theirs: Any, profiler: Optional[Callable[[], Any]]
) -> Callable[[], None]:  # fmt: skip
    """Return the setup function for workers. Ray pickles it by value, so it refers only to variables of its closure."""

    def dkdbg_setup() -> None:
        try:
            space: Dict[str, Any] = {"__name__": "_dkdbg_ray_worker"}
            exec(compile(source, "<dkdbg ray_worker>", "exec"), space)  # noqa: S102
            space["begin"](settings, files)
            if profiler:
                made = profiler()
                made.follow()
                made.begin()
        except Exception as error:
            import sys as system

            system.stderr.write("dkdbg: this worker cannot be debugged or profiled: %r\n" % error)
        if isinstance(theirs, str):
            import importlib

            module, _, name = theirs.rpartition(".")
            getattr(importlib.import_module(module), name)()
        elif theirs is not None:
            theirs()

    return dkdbg_setup


def _read(name: str) -> str:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name)) as source:
        return source.read()


def _files(session: str) -> bytes:
    """Return a zip with the modules for a worker: `inprocess`, and the agent's debugpy, if any."""
    import importlib
    import io
    import zipfile

    bundle: Any = importlib.import_module("_dkdbg.bundle")  # why not `dkdbg`: see _use_our_breakpoint
    agent = os.path.abspath(__file__).rpartition("/dkdbg/agent/")[0]  # where the single file was unpacked
    runtime = os.path.dirname(session)
    inprocess = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tops = [(inprocess, "inprocess")]
    with contextlib.suppress(bundle.NoDebugpy):  # the worker's own Python may have a debugpy
        debugpy = bundle.ensure_debugpy([agent, runtime], runtime)
        tops.append((debugpy, os.path.basename(debugpy)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for top, target in tops:
            for folder, folders, names in os.walk(top):
                # In __pycache__, a debugger that is just starting writes temporary files, which vanish at once.
                folders[:] = [name for name in folders if name != "__pycache__"]
                for path in (os.path.join(folder, name) for name in names):
                    archive.write(path, os.path.join(target, os.path.relpath(path, top)))
    return out.getvalue()


def _wait(session: str) -> float:
    """Return the seconds that a selected worker waits for its breakpoints; 0 without an editor."""
    try:
        with open(os.path.join(session, "join.json")) as source:
            return max(30.0, float(json.load(source)["deadline"]))
    except (OSError, ValueError, KeyError):
        return 0.0


def _use_our_breakpoint() -> None:
    """Replace the `breakpoint()` that Ray installs in drivers, which would open another port, by dkdbg's.

    Import that as `_dkdbg`, not as `dkdbg`: a folder of that name may be on sys.path.
    """
    import importlib

    from ray.util import rpdb

    on_demand: Any = importlib.import_module("_dkdbg.on_demand")
    rpdb._driver_set_trace = on_demand.breakpoint


def _source(runtime_env: Dict[str, Any]) -> str:
    """Return the folder on this machine that Ray unpacks for workers as `working_dir`; empty where unknown."""
    folder = runtime_env.get("working_dir")
    if isinstance(folder, str) and os.path.isdir(folder):
        return os.path.realpath(folder)
    return os.environ.get(ENV_SOURCE, "")


def _modules(runtime_env: Dict[str, Any]) -> List[str]:
    """Return the folders on this machine that Ray unpacks for workers as `py_modules`."""
    found = [getattr(each, "__path__", [each])[0] for each in runtime_env.get("py_modules") or ()]
    return [os.path.realpath(each) for each in found if isinstance(each, str) and os.path.isdir(each)]


def _follow(session: str, run: str, secret: str, source: str) -> None:
    """Record, for the Ray proxy of `dkdbg.agent ray` here, which workers an editor can attach to, until the run ends.

    Args:
        source: see `_source`.
    """
    path = os.path.join(session, _NAME % run)
    wait_key, reported = ("%s-wait" % run).encode(), -1.0
    written: Any = None
    script = getattr(sys.modules["__main__"], "__file__", None)
    main = (os.path.realpath if source else os.path.abspath)(script) if script else ""
    prefix = ("%s:" % run).encode()
    profiled = _Profiled(session, run)
    atexit.register(_forget, prefix, wait_key, path, os.getpid())
    atexit.register(profiled.take)
    while _State.run == run:
        try:
            from ray.experimental import internal_kv

            found = []
            if internal_kv._internal_kv_initialized():
                found = internal_kv._internal_kv_list(prefix, namespace=NAMESPACE)
                wait = _wait(session)
                if wait != reported:  # an editor has attached or left
                    value = b"%g" % wait
                    internal_kv._internal_kv_put(wait_key, value, overwrite=True, namespace=NAMESPACE)
                    reported = wait
            ids = sorted(each[len(prefix) :].decode() for each in found)
            if ids != written:
                workers = {each: _called(prefix + each.encode()) for each in ids}
                descriptor = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(descriptor, "w") as out:
                    content = {
                        "run": run,
                        "secret": secret,
                        "workers": workers,
                        "main": main,
                        "source": source,
                    }
                    json.dump(content, out)
                if _State.run == run:
                    os.replace(path + ".tmp", path)
                written = ids
            profiled.take()
        except Exception:  # Ray is being shut down, or the session's folder is gone
            time.sleep(1.0)
        time.sleep(_INTERVAL_S)
    with contextlib.suppress(OSError):
        os.unlink(path)


def _called(key: bytes) -> str:
    from ray.experimental import internal_kv

    return (internal_kv._internal_kv_get(key, namespace=NAMESPACE) or b"").decode("utf-8", "replace")[:4000]


def _forget(prefix: bytes, wait_key: bytes, path: str, pid: int) -> None:
    if os.getpid() != pid:  # a forked child, while the driver still runs
        return
    _State.run = ""  # the thread that writes the file ends
    for each in (path, path + ".tmp"):
        with contextlib.suppress(OSError):
            os.unlink(each)
    try:
        from ray.experimental import internal_kv

        if internal_kv._internal_kv_initialized():
            internal_kv._internal_kv_del(prefix, del_by_prefix=True, namespace=NAMESPACE)
            internal_kv._internal_kv_put(wait_key, b"0", overwrite=True, namespace=NAMESPACE)
    except Exception:
        pass


class _Profiled:
    """The workers' notes about their profiles, which the agent reports and fetches (supervisor/profiles.py)."""

    def __init__(self, session: str, run: str) -> None:
        self._path = os.path.join(session, "profiled")
        self._prefix = ("%s-profile:" % run).encode()
        self._taken: Any = set()

    def take(self) -> None:
        """Move new notes from Ray's key-value store to the session's folder."""
        if ENV_PROFILE not in os.environ:
            return
        try:
            import ray
            from ray.experimental import internal_kv

            if not internal_kv._internal_kv_initialized():
                return
            for key in set(internal_kv._internal_kv_list(self._prefix, namespace=NAMESPACE)) - self._taken:
                answer = json.loads(internal_kv._internal_kv_get(key, namespace=NAMESPACE) or b"{}")
                answer.update(python=sys.executable, cluster=ray.get_runtime_context().gcs_address)
                file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                try:
                    os.write(file, json.dumps(answer).encode() + b"\n")
                finally:
                    os.close(file)
                self._taken.add(key)
                internal_kv._internal_kv_del(key, namespace=NAMESPACE)
        except Exception as error:  # Ray is being shut down, or the session's folder is gone
            if os.environ.get("DKDBG_DEBUG"):
                sys.stderr.write("dkdbg: notes of profiles: %r\n" % error)
