"""Table of the settings that the agent reads: each environment variable and its description for users.

core/settings.py adds the settings that only the host reads, and generates dkdbg.toml, the debug service's environment
and docs/settings.md from all of them.
"""

from __future__ import annotations

from dkdbg.agent.contract import CONTINUE_ALL, CONTINUES, DEFAULT_PORT, LOOPBACK, RESTART, RESTART_AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Tuple, Union

#: Scope of a setting: in the debug service (from `.env` or the environment of compose), in a job (the environment of
#: the agent and of programs below it), on the host (dkdbg's own environment).
SERVICE, JOB, HOST = "service", "job", "host"
#: Kinds of values that a key of dkdbg.toml accepts, besides a choice (tuple) and whole numbers (range).
TEXT, FLAG, RANKS, TEXTS, SIZE, PATTERNS = "text", "flag", "ranks", "texts", "size", "patterns"
PACKAGES = "packages"  # names of Debian packages
_BY_INIT = "Set by `dkdbg init` in the debug service"


class Setting:
    """One setting.

    Attributes:
        env: its environment variable; empty for a setting that is only a key of dkdbg.toml.
        where: its scopes: one or more of SERVICE, JOB and HOST, joined by blanks.
        help: one line about its effect, also for dkdbg.toml and the compose file.
        more: text that docs/settings.md adds.
        default: its value when it is not set.
        unset: text about the default where that is not one fixed value.
        key: its key in the table [debug] of dkdbg.toml, or `TABLE.KEY`; empty without one.
        values: what dkdbg.toml accepts: a choice, a range of whole numbers, or one of the kinds above.
        example: its value in the template of dkdbg.toml; the default when empty.
        in_compose: whether the debug service reads it from `.env`.
    """

    more = default = unset = key = example = ""
    values: Union[str, range, Tuple[str, ...]] = TEXT
    in_compose = False

    def __init__(self, env: str, where: str, text: str, **fields: object) -> None:
        self.env, self.where, self.help = env, where, text
        for field, value in fields.items():
            getattr(self, field)
            setattr(self, field, value)


#: Settings by variable, in the order of docs/settings.md.
SETTINGS: Dict[str, Setting] = {}


def declare(env: str, where: str, text: str, **fields: object) -> str:
    """Add a setting to the table and return its variable."""
    SETTINGS[env] = Setting(env, where, text, **fields)
    return env


_USUAL = "service job"
# fmt: off
ENV_PORT = declare(
    "DKDBG_PORT", _USUAL, "port on 127.0.0.1", key="port", values=range(1, 65536), default=str(DEFAULT_PORT),
    more="`dkdbg up` takes a free one and writes it to launch.json and `.env`; in a job `0` takes a free one",
)
ENV_WAIT = declare(
    "DKDBG_WAIT", _USUAL, "seconds to wait for an editor; 0: start at once", key="wait", values=range(7 * 86400 + 1),
    example="600", unset="`600`, `0` for a server and in a job", in_compose=True, more="`forever` has no limit",
)
ENV_RELOAD = declare(
    "DKDBG_RELOAD", _USUAL, "restart the program at each saved file; the editor stays attached", key="reload",
    values=FLAG, default="0", in_compose=True, more="`1`, or `true` in dkdbg.toml. The container outlives the program",
)
ENV_RESTART = declare(
    "DKDBG_RESTART", _USUAL, "what F5 does after an edit: auto (restart), ask (only report it) or never", key="restart",
    values=RESTART, default=RESTART_AUTO, unset="`auto` in the debug service, else `ask`", in_compose=True,
    more="Only edits of source that the program has loaded count. `auto` restarts no run that is older than an hour or "
    "held after a crash; `never` also disables Restart in the editor",
)
ENV_RANKS = declare(
    "DKDBG_RANKS", _USUAL, "debug these ranks, the others run free: 0,3 or 0-7:2 or failing", key="ranks",
    values=RANKS, default="all", in_compose=True,
)
ENV_CONTINUE = declare(
    "DKDBG_CONTINUE", _USUAL, "Continue and Pause act on all ranks; one: only on the rank in focus", key="continue",
    values=CONTINUES, default=CONTINUE_ALL, in_compose=True,
    more="The key is read by `attach` and `run` too; `\"dkdbgContinue\"` in a launch entry overrides it",
)
ENV_BEATS = declare(
    "DKDBG_BEATS", _USUAL, "threads that run on while the others are held: heartbeat,Lease*", key="beats", values=PATTERNS,
    example='"heartbeat,Lease*"', unset="the known ones of uvicorn and torchelastic", in_compose=True,
    more="Comma-separated shell patterns of a thread's name, target or class; no breakpoint stops in these threads",
)
ENV_THEN = declare(
    "DKDBG_THEN", _USUAL, "when no editor came: exit (code 124) or run", default="exit", in_compose=True
)
ENV_FOR = declare(
    "DKDBG_FOR", _USUAL, "close the debug port after this time: 2h, 30m, 90s; the program keeps running", unset="never",
    in_compose=True, more="Set by `dkdbg up --for`. Editors are detached, and nothing listens until the next start",
)
ENV_ON_CRASH = declare(
    "DKDBG_ON_CRASH", _USUAL, "hold=20m: an uncaught exception waits that long for an editor", unset="the process ends",
    in_compose=True, more="It is held in the failing frame; if no editor comes: same traceback, same exit code",
)
ENV_NO_COMPILE = declare(
    "DKDBG_NO_COMPILE", _USUAL, "1: run with TORCH_COMPILE_DISABLE=1", in_compose=True,
    more="Compiled functions swallow breakpoints (dkdbg says so when one does)",
)
ENV_HOUSEKEEPING = declare(
    "DKDBG_HOUSEKEEPING", _USUAL, "1: debug helper processes too", in_compose=True,
    more="Such as multiprocessing's resource tracker and forkserver, torch's compile workers, Ray's own",
)
ENV_PYTHON = declare(
    "DKDBG_PYTHON", _USUAL, "Python 3.8 or newer that runs the agent", unset="the command's own, then the usual ones", in_compose=True
)
ENV_TOKEN = declare(
    "DKDBG_TOKEN", "service job host", "token that an editor has to show; empty: none", unset="none; `dkdbg up`, F5 and the host: that of `~/.config/dkdbg/token`",
    more="In the debug service only with `token` in dkdbg.toml. On the host `attach` proves it and `attach --listen` asks for it",
)
ENV_TOKEN_FILE = declare("DKDBG_TOKEN_FILE", "job host", "file that holds the token")
ENV_HOST = declare("DKDBG_HOST", JOB, "address that the agent listens on", default=LOOPBACK)
ENV_WAIT_OPENPAI = declare("DEBUG_TIMEOUT", JOB, "`DKDBG_WAIT` as OpenPAI's paipdb calls it; `DKDBG_WAIT` wins")
ENV_LISTEN = declare("DKDBG_LISTEN", JOB, "`[HOST:]PORT` that the agent listens on when `PYTHONPATH` alone starts it")
ENV_CONNECT = declare(
    "DKDBG_CONNECT", JOB, "`HOST:PORT#sha256:FINGERPRINT` that the agent connects to, as `dkdbg attach --listen` prints it; needs a token"
)
ENV_ALLOW = declare(
    "DKDBG_ALLOW", JOB, "who may connect besides loopback and the container's gateway: `any`, or comma-separated CIDRs"
)
ENV_NAME = declare("DKDBG_NAME", JOB, "the session's name", unset="the host's name")
ENV_BREAKPOINT_WAIT = declare(
    "DKDBG_BREAKPOINT_WAIT", JOB, "how long `breakpoint()` waits for an editor", unset="as `DKDBG_WAIT`"
)
ENV_PDB = declare("DKDBG_PDB", JOB, "`HOST:PORT` for pdb over TCP: `breakpoint()` stops there", unset="an editor")
ENV_PDB_AT_START = declare("DKDBG_PDB_AT_START", JOB, "`1`: pdb stops at the first line too")
ENV_LINGER = declare(
    "DKDBG_LINGER", JOB, "seconds from the program's start: if it ends sooner, the debug port stays open until then, for the editor that F5 attaches", default="0"
)
ENV_MAPPINGS = declare("DKDBG_MAPPINGS", JOB, 'JSON list of `{"localRoot", "remoteRoot"}`', unset="from the mounts")
ENV_PROJECT = declare("DKDBG_PROJECT", JOB, "refuse an attach that names another project")
ENV_OWN_CONTAINER = declare(
    "DKDBG_OWN_CONTAINER", JOB, "`1`: the container exists only for this program",
    more="A .pth file loads the hook in Pythons that ignore `PYTHONPATH`, and programs of other users that root "
    "starts can be debugged. " + _BY_INIT,
)
ENV_STANDS_FOR = declare("DKDBG_STANDS_FOR", JOB, "name of the original service, to which this container answers too", more=_BY_INIT)
ENV_IMAGE_FILES = declare(
    "DKDBG_IMAGE_FILES", JOB, "folders of the image, separated by colons, that the checkout (`/app`) or a folder of it (`src=/app/src`) is mounted over", more=_BY_INIT
)
ENV_JOIN_DEADLINE = declare(
    "DKDBG_JOIN_DEADLINE", JOB, "how long a Python process that starts or joins waits for an attached editor's breakpoints",
    default="10",
)
ENV_NSYS = declare("DKDBG_NSYS", JOB, "comma-separated shell patterns of the workers that nsys profiles")
ENV_NEMO_RL_NSYS = declare("NRL_NSYS_WORKER_PATTERNS", JOB, "`DKDBG_NSYS` as NeMo RL calls it; `DKDBG_NSYS` wins")
ENV_NSYS_RANKS = declare("DKDBG_NSYS_RANKS", JOB, "ranks that nsys profiles: `0`, `0-7:2`")
ENV_NSYS_OPTIONS = declare("DKDBG_NSYS_OPTIONS", JOB, "further options of `nsys profile`", default="-t cuda,nvtx -s none")
ENV_PY_SPY = declare("DKDBG_PY_SPY", JOB, "as `DKDBG_NSYS`, for `py-spy record`")
ENV_PY_SPY_RANKS = declare("DKDBG_PY_SPY_RANKS", JOB, "ranks that py-spy profiles")
ENV_PY_SPY_OPTIONS = declare("DKDBG_PY_SPY_OPTIONS", JOB, "further options of `py-spy record`")
ENV_TORCH_PROFILE = declare("DKDBG_TORCH_PROFILE", JOB, "as `DKDBG_NSYS`, for torch's profiler")
ENV_TORCH_PROFILE_RANKS = declare("DKDBG_TORCH_PROFILE_RANKS", JOB, "ranks that torch's profiler profiles")
ENV_TORCH_PROFILE_STEPS = declare(
    "DKDBG_TORCH_PROFILE_STEPS", JOB, "`FIRST:END` of the optimizer's steps, from 1 on", default="2:12"
)
ENV_PROFILE_DIR = declare("DKDBG_PROFILE_DIR", JOB, "folder of the profiles", default="dkdbg-profiles")
# fmt: on

#: Variables that the agent sets for the program: the session's folder (without it the hook does nothing), and salt and
#: digest of the token that a pdb client must send first.
ENV_SESSION_DIR, ENV_PDB_TOKEN = "DKDBG_SESSION_DIR", "DKDBG_PDB_TOKEN"
#: Mount point of the volume with copies of the image's files that the mounted checkout hides; see ENV_IMAGE_FILES.
IMAGE_FILES = "/opt/dkdbg-image"
DEFAULT_JOIN_DEADLINE = float(SETTINGS[ENV_JOIN_DEADLINE].default)
