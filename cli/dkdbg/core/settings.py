"""The table of settings: the agent's, and those that only the host reads."""

from __future__ import annotations

from dkdbg.agent import settings as agent
from dkdbg.agent.settings import FLAG, HOST, JOB, PACKAGES, SERVICE, SIZE, TEXTS, Setting
from dkdbg.core.facts import GPU_NEEDS
from dkdbg.core.plan import AGENTS, CHECKED_IN, FROM_NOWHERE, TOKEN_KINDS

#: Python versions that the agent runs on.
PYTHONS = tuple(f"3.{minor}" for minor in range(8, 15))
# fmt: off
_PROGRAM = (
    Setting("", HOST, "what runs under the debugger, unchanged", key="command", example='"python train.py --epochs 1"', unset="detected"),
    Setting("", HOST, "compose service to debug", key="service", example='"web"', unset="detected"),
    Setting("", HOST, "your Dockerfile to build, without a service", key="dockerfile", example='"Dockerfile.gpu"', unset="detected"),
    Setting("", HOST, "Python of the Dockerfile that `dkdbg init` writes", key="python", values=PYTHONS, example='"3.11"', unset="detected"),
    Setting("", HOST, "Debian packages that this Dockerfile installs beside those found", key="apt", values=PACKAGES, example='["libgl1", "ffmpeg"]', unset="none"),
    Setting("", HOST, "whether the program needs a GPU", key="gpu", values=GPU_NEEDS, example='"optional"', unset="detected"),
)
_HOST = (
    Setting("", HOST, 'source of the debug port\'s token, where others use this machine too: "env" (DKDBG_TOKEN) or "prompt"', key="token", values=TOKEN_KINDS, default=FROM_NOWHERE),
    Setting("", HOST, 'git has the agent (1 MB); with "fetched" it has only the digest, and `dkdbg up` writes the file', key="agent", values=AGENTS, default=CHECKED_IN),
    Setting("", HOST, "patterns as in .gitignore, applied after it and .dockerignore; ! includes again", key="sync.ignore", values=TEXTS, example='["data/", "!data/tiny.csv"]'),
    Setting("", HOST, "larger files are not copied", key="sync.max_size", values=SIZE, example='"100 MB"', unset="`100 MB`"),
    Setting("", HOST, "address of the target that `NAME` stands for", key="targets.NAME.uri"),
    Setting("DKDBG_PROCESSES", SERVICE, "how many processes the launcher starts", default="1", unset="`1`; `dkdbg up` and F5: the documented number",
            more="At most one per GPU (or per core, for a program that runs without GPUs)"),
    Setting("DKDBG_GPU", SERVICE, "none, nvidia, cdi or amd; `dkdbg up` and F5 detect which", default="none"),
    Setting("DKDBG_APP_PORT_", SERVICE, "followed by a port of the program, such as `DKDBG_APP_PORT_8000`: that port's number on the host", unset="the same port"),
    Setting("DKDBG_BASE", SERVICE, "base image of the Dockerfile that `dkdbg init` wrote"),
    Setting("DKDBG_CA", SERVICE, "PEM file of a private CA that the build trusts; a build secret, never in the image"),
    Setting("DKDBG_SKIP", JOB, "comma-separated substrings of further command lines that are never debugged"),
    Setting("DKDBG_RUNTIME_DIR", JOB, "private folder for what the agent unpacks and keeps", unset="`/tmp/dkdbg-UID`"),
    Setting("DKDBG_OWNER", JOB, "a folder or file; if started as root, the agent and the program run as its owner"),
    Setting("DKDBG_HOME_OF", JOB, "with `DKDBG_OWNER`, in a debug service: the user whose HOME the program has"),
    Setting("DKDBG_DEBUG", JOB, "`1`: the hook says on stderr why it did nothing"),
    Setting("DEBUG_PORT_NAME", JOB, "OpenPAI: label of the port in the job's `resourcePerInstance.ports`", default="debug"),
    Setting("DEBUG_PORT", JOB, "OpenPAI: the port itself", unset="from `PAI_PORT_LIST_ROLE_INDEX_LABEL`, `PAI_CONTAINER_HOST_LABEL_PORT_LIST`"),
    Setting("DKDBG_AGENT", JOB, "OpenPAI: path of the single file, for `--dap`", unset="an installed dkdbg, or `.dkdbg/agent.pyz` here"),
    Setting("DKDBG_PAI_TOKEN", HOST, "application token of OpenPAI's portal, for `pai://`"),
    Setting("DKDBG_PAI_TOKEN_FILE", HOST, "file that holds it"),
    Setting("DKDBG_PAI_HTTP", HOST, "`1`: that portal has no HTTPS"),
)
# fmt: on
SETTINGS = (*_PROGRAM, *agent.SETTINGS.values(), *_HOST)
#: Settings by their key in dkdbg.toml.
KEYS = {setting.key: setting for setting in SETTINGS if setting.key}


def toml_template() -> str:
    """Return the dkdbg.toml of `init`: every key with its default, as a comment."""
    lines = ["# How this repository is debugged. Run `dkdbg init` after a change.", "[debug]"]
    for key, setting in KEYS.items():
        table, _, name = key.rpartition(".")
        if table == "sync" and "[sync]" not in lines:
            lines += ["", "[sync]"]
        if table in {"", "sync"}:
            value = setting.example or _toml(setting)
            lines.append(f"# {name} = {value}".ljust(43) + f"# {setting.help}")
    return "\n".join(lines) + "\n"


def _toml(setting: Setting) -> str:
    if setting.values == FLAG:
        return "false"
    return setting.default if isinstance(setting.values, range) else f'"{setting.default}"'
