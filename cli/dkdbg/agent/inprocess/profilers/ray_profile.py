"""Profiles the selected actors of Ray: nsys from the worker's first line, py-spy and torch's profiler later.

Runs in a driver and in each of its workers, which may create actors too; the driver sends it to them as source text,
like ray/worker.py. nsys has to start the process that it profiles, so a new actor's runtime environment gets a
`py_executable` with nsys, which Ray runs with the worker's script. Ray's own `nsight` would run `python` instead of the
node's interpreter (ray-project/ray#66093), so an actor that requests `nsight` gets such a `py_executable` too, with its
options. In the worker of such an actor, new tasks and actors get the former interpreter back, or they would inherit
nsys. Workers record their profiles in Ray's key-value store, for the driver (ray/driver.py).
"""

# ruff: noqa: ANN401

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import shutil
import sys

from . import tools, torch_profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

#: Variables of a worker that runs under nsys: a description (JSON), and the path of the profile without its end,
#: `_PID.nsys-rep`.
ENV, ENV_BASE = "DKDBG_RAY_NSYS", "DKDBG_RAY_NSYS_BASE"
#: Folder for profiles in Ray's session folder on each node.
FOLDER = "logs/dkdbg-profiles"
ENDINGS = {"nsys": ".nsys-rep", "py-spy": ".speedscope.json", "torch": ".trace.json"}
#: Keys of runtime environments that Ray activates before it starts a worker, so that `python` is theirs.
_ACTIVATED = ("pip", "conda", "uv")
#: Keys of runtime environments that start the worker in a container, with an interpreter in there.
_CONTAINED = ("image_uri", "container")
#: Shell code that sets `python` to the interpreter with which a node's raylet starts workers
#: (`ray/_private/services.py`), or to `fallback` if that cannot be read.
_NODES_OWN = (
    'python=$(tr "\\0" "\\n" </proc/$PPID/cmdline 2>/dev/null | sed -n "s/^--python_worker_command=\\([^ ]*\\) .*/\\1/p"); '
    '[ -x "$python" ] || python={fallback}; '
)
_NSYS = """\
nsys={nsys}; [ -x "$nsys" ] || nsys=$(command -v nsys) || for each in {places}; do [ -x "$each" ] && nsys=$each; done; \
top=/tmp/ray; session=session_latest; \
for word; do case $word in --temp-dir=*) top=${{word#*=}};; --session-name=session_*) session=${{word#*=}};; esac; done; \
folder={folder}; [ -n "$folder" ] || folder=$top/$session/{below}; \
export {env}={about} {env_base}="$folder"/{worker}; \
if [ ! -x "$nsys" ]; then export {env_base}=; exec {python} "$@"; fi; \
mkdir -p "$folder"; exec "$nsys" profile {options} -o "$folder"/{file}_%p {python} "$@"\
"""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Profiler:
    """The profilers of one run of a driver.

    Args:
        settings: `tools`, as in profiling.py; `folder` for the files, empty for FOLDER; `run` (its id) and `namespace`
            (in Ray's store), see ray/driver.py; `fallback`, an interpreter.
    """

    def __init__(self, settings: Dict[str, Any]) -> None:
        self._settings = settings
        self._tools: Dict[str, Any] = {each["tool"]: each for each in settings["tools"] if each["patterns"]}
        self._seen: Any = set()
        self._is_actor = False
        self._own = json.loads(os.environ.get(ENV) or "{}")

    def follow(self) -> None:
        """Change the options of each actor and task that this process creates from now on."""
        from ray import actor, remote_function
        from ray.runtime_env import RuntimeEnv

        if "nsys" in self._tools and "py_executable" not in RuntimeEnv.known_fields:
            del self._tools["nsys"]
            _say(
                "nsys: no actor is profiled, because this Ray is too old: its runtime_env has no py_executable"
            )
        if "nsys" in self._tools:
            _before(actor.ActorClass, "_remote", self._of_actor)
            if self._own:
                _before(remote_function.RemoteFunction, "_remote", self._of_task)

    def begin(self) -> None:
        """Record this worker's profile by nsys, if any; start the other profilers once the worker becomes an actor."""
        if self._own:
            self._under_nsys()
        if {"py-spy", "torch"} & set(self._tools):
            from ray._private import function_manager

            manager = function_manager.FunctionActorManager
            former = manager.load_actor_class

            def load_actor_class(this: Any, job: Any, descriptor: Any, *more: Any, **named: Any) -> Any:
                found = former(this, job, descriptor, *more, **named)
                _safely(self._inside, descriptor)
                return found

            manager.load_actor_class = load_actor_class

    def _of_actor(self, made: Any, options: Dict[str, Any]) -> Dict[str, Any]:
        """Return the options for a new actor."""
        meta = made.__ray_metadata__
        descriptor = meta.actor_creation_function_descriptor
        given = options.get("name") or ""
        known = names(descriptor.class_name, descriptor.module_name, given)
        own = dict(options.get("runtime_env") or {})
        if not known or ENV in own.get("py_executable", ""):
            return options
        tool = self._tools["nsys"]
        pattern = tools.matched(known, tool["patterns"])
        asks = own.get("nsight") or own.get("_nsight")
        if not tool["is_ours"] and not asks and "nemo_rl" in sys.modules:
            pattern = ""  # NeMo RL adds nsys to its actors itself, and has not done so here
        if not pattern:
            self._record_unmatched(known[0])
            return self._given_back(options, own)
        everything = dict(_current(), **own)
        if any(everything.get(each) for each in _CONTAINED):
            _say("nsys: '%s' runs in a container started by Ray (image_uri) and is not profiled" % known[0])
            return options
        for name in ("nsight", "_nsight"):
            own.pop(name, None)
        if asks:
            tool = dict(tool, options=[*_asked_of_ray(asks), *tool["options"]])
        python = self._interpreter(everything)
        about = {"worker": known[0], "why": "matched pattern '%s'" % pattern, "theirs": python}
        own["py_executable"] = _shell(self._text(tool, about, python), python, self._settings["fallback"])
        named = " (%s)" % given if given else ""
        _say("nsys profiling enabled for worker '%s'%s (%s)" % (known[0], named, about["why"]))
        return dict(options, runtime_env=_checked(own))

    def _of_task(self, _made: Any, options: Dict[str, Any]) -> Dict[str, Any]:
        """Return the options for a new task that is created in a worker under nsys."""
        options = self._given_back(options, dict(options.get("runtime_env") or {}))
        if "serialized_runtime_env_info" in options:
            from ray._private.utils import get_runtime_env_info

            options["serialized_runtime_env_info"] = get_runtime_env_info(
                options["runtime_env"], is_job_runtime_env=False, serialize=True
            )
        return options

    def _given_back(self, options: Dict[str, Any], own: Dict[str, Any]) -> Dict[str, Any]:
        if not self._own or own.get("py_executable"):
            return options
        python = self._own["theirs"]
        own["py_executable"] = python or _shell('exec "$python" "$@"', "", self._settings["fallback"])
        return dict(options, runtime_env=_checked(own))

    def _interpreter(self, everything: Dict[str, Any]) -> str:
        """Return the interpreter as a word for a shell; empty for the node's own."""
        theirs = everything.get("py_executable") or ""
        if self._own and ENV in theirs:  # this process runs under nsys itself
            theirs = self._own["theirs"]
        if theirs:
            return str(theirs)
        return "python" if any(everything.get(each) for each in _ACTIVATED) else ""

    def _text(self, tool: Dict[str, Any], about: Dict[str, str], python: str) -> str:
        worker = _UNSAFE.sub("_", about["worker"])
        return _NSYS.format(
            nsys=shlex.quote(tool["path"]), places=" ".join(tools.NSYS_PLACES), folder=shlex.quote(self._settings["folder"]),
            below=FOLDER, env=ENV, env_base=ENV_BASE, about=shlex.quote(json.dumps(about)), worker=worker, file=worker,
            options=" ".join(map(shlex.quote, tools.nsys_options(tool))), python=python or '"$python"',
        )  # fmt: skip

    def _under_nsys(self) -> None:
        base = os.environ.get(ENV_BASE, "")
        if not base:
            text = "nsys is not installed on this node (%s): worker '%s' runs unprofiled"
            _say(text % (os.uname().nodename, self._own["worker"]))
            return
        pids = _up_to(base)
        paths = [
            "%s_%d%s" % (base, each, ending) for ending in (ENDINGS["nsys"], tools.NSYS_RAW) for each in pids
        ]
        self._record("nsys", self._own["worker"], self._own["why"], paths, pids)

    def _inside(self, descriptor: Any) -> None:
        """Start the profilers inside this worker, which is about to become an actor."""
        try:
            import ray

            given = ray.get_runtime_context().get_actor_name() or ""
        except Exception:  # an older Ray, or one that does not report it yet
            given = ""
        known = names(descriptor.class_name, descriptor.module_name, given)
        if not known:
            return
        is_first, self._is_actor = not self._is_actor, True  # a worker becomes an actor only once
        for name in ("py-spy", "torch"):
            if is_first and name in self._tools:
                tool = self._tools[name]
                pattern = tools.matched(known, tool["patterns"])
                if pattern:
                    self._profile_method(tool, known[0], given, "matched pattern '%s'" % pattern)
                else:
                    self._record_unmatched(known[0])

    def _profile_method(self, tool: Dict[str, Any], worker: str, given: str, why: str) -> None:
        name = tool["tool"]
        folder = self._settings["folder"] or os.path.join(_session_folder(), FOLDER)
        os.makedirs(folder, exist_ok=True)
        base = os.path.join(folder, "%s_%d" % (_UNSAFE.sub("_", worker), os.getpid()))
        path = tools.free(base, ENDINGS[name])
        if name == "py-spy":
            program = _py_spy(tool)
            if not program:
                text = "py-spy is not installed on this node (%s): worker '%s' runs unprofiled"
                _say(text % (os.uname().nodename, worker))
                return
            pids = [tools.start_py_spy(program, tool["options"], path)]
        else:
            pids = [os.getpid()]
            torch_profile.follow(path, tool["steps"])
        _say(
            "%s profiling enabled for worker '%s'%s (%s)"
            % (name, worker, " (%s)" % given if given else "", why)
        )
        self._record(name, worker, why, [path], pids)

    def _record_unmatched(self, worker: str) -> None:
        if worker not in self._seen:
            self._seen.add(worker)
            self._put({"pid": os.getpid(), "worker": worker})

    def _record(self, tool: str, worker: str, why: str, paths: List[str], pids: List[int]) -> None:
        """Record a profile: it is at one of `paths`, and complete when the processes `pids` have ended."""
        import ray

        self._put({
            "pid": os.getpid(), "worker": worker, "tool": tool, "why": why, "path": paths[0], "base": "", "by": 0,
            "paths": paths, "pids": pids, "node": os.uname().nodename, "node_id": ray.get_runtime_context().get_node_id(),
        })  # fmt: skip

    def _put(self, entry: Dict[str, Any]) -> None:
        from ray.experimental import internal_kv

        key = "%s-profile:%s" % (self._settings["run"], os.urandom(8).hex())
        internal_kv._internal_kv_put(
            key.encode(), json.dumps(entry).encode(), overwrite=True, namespace=self._settings["namespace"]
        )


def names(cls: str, module: str, given: str) -> List[str]:
    """Return the names of an actor that a pattern may match, first its class as NeMo RL spells it (snake case)."""
    if not cls or cls.startswith("__ray_") or _is_rays(module):
        return []
    short = cls.rpartition(".")[2]
    snake = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", short).lower()
    return [snake, short, "%s.%s" % (module, cls), given]


def _is_rays(module: str) -> bool:
    return (module + ".").startswith("ray.") and not module.startswith("ray.train.")


def _up_to(base: str) -> List[int]:
    """Return the pids of this process and its ancestors below nsys: nsys names its file by one of them.

    There are several if the interpreter is `uv run`, for example.
    """
    output, found = (base + "_%p").encode(), [os.getpid()]
    try:
        while True:
            with open("/proc/%d/cmdline" % found[-1], "rb") as source:
                if output in source.read().split(b"\0"):
                    return found
            with open("/proc/%d/stat" % found[-1]) as text:
                found.append(int(text.read().rpartition(")")[2].split()[1]))
    except (OSError, ValueError):
        return found[:1]


def _before(cls: Any, name: str, change: Callable[..., Any]) -> None:
    """Wrap a method so that `change` replaces its options before each call; after an error they are unchanged."""
    former = getattr(cls, name)
    knows = "serialized_runtime_env_info" in inspect.signature(former).parameters

    def _remote(self: Any, args: Any = None, kwargs: Any = None, *more: Any, **options: Any) -> Any:
        if knows and more:
            options["serialized_runtime_env_info"], more = more[0], more[1:]
        elif knows:
            options.setdefault("serialized_runtime_env_info", None)
        return former(self, args, kwargs, *more, **(_safely(change, self, options) or options))

    setattr(cls, name, _remote)


def _safely(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        _say("a worker cannot be profiled: %s: %s" % (type(error).__name__, error))
        return None


def _say(text: str) -> None:
    sys.stderr.write("dkdbg: %s\n" % text)


def _current() -> Dict[str, Any]:
    """Return the runtime environment that new tasks and actors inherit."""
    import ray

    return dict(ray.get_runtime_context().runtime_env or {})


def _checked(own: Dict[str, Any]) -> Any:
    from ray.runtime_env import RuntimeEnv

    return RuntimeEnv(**own)


def _shell(text: str, python: str, fallback: str) -> str:
    """Return shell code as Ray's `py_executable`; its `$@` are the worker's script and arguments."""
    first = "" if python else _NODES_OWN.format(fallback=shlex.quote(fallback))
    return "sh -c %s dkdbg" % shlex.quote(first + text)


def _asked_of_ray(asks: Any) -> List[str]:
    """Return the options for nsys from an actor's own `nsight`, as Ray would write them, without the output file."""
    from ray._private.runtime_env import nsight as rays

    found: Dict[str, Any] = dict(rays.NSIGHT_DEFAULT_CONFIG) if isinstance(asks, str) else dict(asks)
    argv: List[str] = []
    for option, value in found.items():
        if option not in ("o", "output"):
            plain = " ".join(shlex.split(str(value)))
            argv += ["--%s=%s" % (option, plain)] if len(option) > 1 else ["-" + option, plain]
    return argv


def _session_folder() -> str:
    from ray._private import worker

    return str(worker._global_node.get_session_dir_path())


def _py_spy(tool: Dict[str, Any]) -> Optional[str]:
    """Return the path of py-spy on this node, None if it is missing."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    found = next((each for each in (tool["path"], beside) if each and os.access(each, os.X_OK)), None)
    return found or shutil.which("py-spy")
