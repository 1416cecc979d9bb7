"""Find why a program ended, from the end of its output, or why it did not start, from the error. Pure."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dkdbg.agent.settings import IMAGE_FILES
from dkdbg.core.known_errors import NO_SHELL, bounded, line_at
from dkdbg.launchers.python import PYTHON
from dkdbg.proof.finding import Finding, with_lf
from dkdbg.setup.detect.python.imports import distributions, is_known
from dkdbg.setup.detect.python.system_packages import package_of_library

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dkdbg.errors import DkdbgError

#: Number of the output's last lines to show.
_SHOWN_LINES = 8
_OUT_OF_MEMORY, _USAGE, _NOT_EXECUTABLE, _NOT_FOUND = 137, 2, 126, 127
#: Usual paths of Python interpreters, as shell patterns; relative ones are below the working directory.
_INTERPRETERS = (
    "/usr/bin/python3*", "/usr/local/bin/python3*", "/opt/*/bin/python", "/opt/conda/envs/*/bin/python", "/venv/bin/python",
    "/*/.venv/bin/python", "/root/*/bin/python", "/home/*/*/bin/python", "/usr/src/*/bin/python", ".venv/bin/python", "venv/bin/python",
)  # fmt: skip
#: Usual working directories in images, and their folders.
_FOLDERS = ("/*", "/*/*", "/usr/src/*", "/home/*/*")
#: Pattern of an error, link, cause; the first match wins.
_START_CAUSES = (
    (r"no Docker engine|daemon socket|there is no program 'docker'|no compose plugin", "engine", "engine-absent"),
    (r"publishes its debug port on", "listen", "published-openly"),
    (r"device driver|runtime name: nvidia|\bCDI\b|custom device|GPU request", "gpu", "gpu-absent"),
    (r"an address of the service is taken", "start", "address-taken"),
    (r"already in use|already allocated|ports are not available|no free port", "port", "port-taken"),
    (r"idles: no program", "setup", "no-program"),
    (r"No such image|source metadata|pull access denied|manifest unknown|failed to do request|/v2/|short-name", "image", "base-image-absent"),
    (r"no such service|undefined service", "setup", "service-absent"),
    (r"that yours depends on", "start", "dependency-fails"),
    (r"your compose file calls external", "setup", "external-absent"),
    (r"does not trust the certificate", "image", "index-untrusted"),
    (r"no space left", "image", "disk-full"),
    (r"that the checkout has already", "image", "folder-exists"),
    (r"variables? that (?:is|are) not set|missing a value", "setup", "variable-missing"),
    (r"no sh on PATH", "agent", "shell-missing"),
)  # fmt: skip
#: Causes that an image's ENTRYPOINT script may prevent, because it sets variables.
PREVENTED = frozenset(
    {"command-missing", "module-missing", "own-module", "other-interpreter", "library-missing"}
)
#: Variables by which programs, modules and libraries are found; line between two environments that a script prints.
_SEARCHED = ("PATH=", "PYTHONPATH=", "PYTHONHOME=", "LD_LIBRARY_PATH=", "VIRTUAL_ENV=", "CONDA_PREFIX=")
_SEPARATOR = "----dkdbg-entrypoint----"
#: Causes by messages that a build may print although it fails for another reason.
_VAGUE_CAUSES = frozenset({"program-ends", "data-missing", "permission", "command-missing"})


@dataclass(frozen=True, kw_only=True)
class Around:
    """Facts about the repository, for the remedies.

    Attributes:
        installs_from: function of a distribution's name that returns the file from which the image installs packages,
            the line to add to it, and the commands to run next. The line is empty if the file has it already. None
            instead of the function if the program does not run in an image of this repository.
        own: names of the repository's own modules.
        command: the program's command line, as typed.
        written_by: returns the project file (setup.py, ...) that generates a module during installation, else "".
        file_of: returns the repository's file for a dotted module name, else "".
        named_in: returns where a dependency file of the repository (installed or not) names a distribution, else "".
        lies_at: returns the only path in the repository that ends with a path (leading dots removed), else "".
        inherits_entrypoint: whether plain Docker would run an ENTRYPOINT that the image inherits from its base image.
    """

    installs_from: Callable[[str], tuple[str, str, str]] | None
    own: Collection[str] = ()
    command: str = ""
    written_by: Callable[[str], str] = lambda _: ""
    file_of: Callable[[str], str] = lambda _: ""
    named_in: Callable[[str], str] = lambda _: ""
    lies_at: Callable[[str], str] = lambda _: ""
    inherits_entrypoint: bool = False


def cause_of(text: str, code: int | None, around: Around) -> Finding:
    """Return why a program ended or did not start, from the last output of the program and the agent.

    `code` is the program's exit code; None while it runs.
    """
    clean = bounded(text.replace("\x1b[2K", ""))
    if found := of_agent(clean):
        return found
    for search in (_of_image_files, _of_gpu, _of_last_error, _of_import, _of_arguments, _of_system, _of_code):
        found = search(clean, code, around)
        if found is not None:
            return found
    if own := re.search(r"^dkdbg: ([^\n]+)\n  hint: ([^\n]+)", clean, re.MULTILINE):
        return _finding("not-started", own[1], own[2], clean, link="start")
    last = last_error(clean)
    says = f"the program ended with {_called(code)}" + (
        f": {last}" if last else " before any of its own lines stopped"
    )
    return _finding(
        "program-ends",
        says,
        "correct it, or give the right command: dkdbg init --command 'python train.py'",
        clean,
    )


def of_agent(text: str) -> Finding | None:
    """Return why the agent did not start a session, by its own messages; None if there is no such message."""
    text = bounded(text)
    if found := re.search(r"^dkdbg: [^\n]*?no debugpy for (Python \S+)", text, re.MULTILINE):
        return _finding(
            "debugpy-missing", f"the agent has no debugpy for the {found[1]} of the image",
            "dkdbg init writes an agent with the matching debugpy; the image needs Python 3.8 or newer", text, link="agent",
        )  # fmt: skip
    found = _OFF.search(text)
    if found is None:
        return None
    reason = found[1] or found[2]
    if re.search(r"[Rr]ead-only file system|no (?:folder|directory)[^\n]*writ|not writable", reason):
        return _finding(
            "read-only", f"the agent finds no writable folder: {reason}",
            "give the service a writable /tmp (tmpfs: [/tmp]), or name one with DKDBG_RUNTIME_DIR", text, link="agent",
        )  # fmt: skip
    remedy = "correct that, then dkdbg verify"
    return _finding("agent-off", f"the agent cannot start: {reason}", remedy, text, link="agent")


_OFF = re.compile(
    r"^dkdbg: (?:([^\n]*?): the program runs without the debugger|cannot start: ([^\n]+))", re.MULTILINE
)


#: The agent's message that names the port on which it listens.
_DEBUG_PORT = re.compile(
    r"^dkdbg: (?:waiting for a debugger|a debugger can attach) on \S*:(\d+)", re.MULTILINE
)
#: Messages with which uv and pip name a requirement that they cannot build or find.
_NOT_BUILT = re.compile(
    r"Failed to (?:download and )?build `([^`\n]{1,200})`|Failed building wheel for ([\w.\[\]-]{1,200})"
    r"|Failed to build '([^'\n]{1,200})' when"
)
_NOT_INDEXED = re.compile(
    r"No matching distribution found for ([^\s(]{1,200})|Because ([\w.\[\]-]{1,200}) was not found in the package registry"
    r"|Because there (?:is no version|are no versions) of ([^\s,]{1,200})"
)
#: Message of the empty distribution `sklearn`, which cannot be installed.
_RENAMED = re.compile(r"The '([\w.-]{1,100})' PyPI package is deprecated, use '([\w.-]{1,100})'")
_NO_COMPILER = re.compile(
    r"Unknown compiler|(?:command|execute) '[^'\n]*(?:gcc|g\+\+|cc|clang)'? failed: No such file|Python\.h: No such file"
    r"|No such file or directory: '(?:gcc|g\+\+|cc|clang)'|(?:gcc|g\+\+|cc): not found"
)


def of_requirement(text: str) -> Finding | None:
    """Return the finding for a requirement that an image cannot install, from its build's output; None without one."""
    remedy = "use another version of it, or another Python: dkdbg init --python 3.9 for the Dockerfile that init writes, FROM in your own"
    if "error: externally-managed-environment" in text:
        return _finding(
            "requirement-fails", "pip refuses to install into the Python of the image's distribution (PEP 668)",
            "create a virtual environment in the Dockerfile, before pip: RUN python3 -m venv /opt/venv and ENV PATH=/opt/venv/bin:$PATH",
            text, link="image",
        )  # fmt: skip
    if found := _RENAMED.search(text):
        says = "{} is now an empty package on the index"
        remedy = f"write {found[2]} in place of {found[1]} in your requirements, then dkdbg verify"
    elif found := _NOT_BUILT.search(text):
        says = "{} has no wheel for this Python, and its sources do not build"
        if _NO_COMPILER.search(text):
            remedy = "install a compiler in the image: RUN apt-get update && apt-get install -y --no-install-recommends build-essential python3-dev"
    elif every := list(_NOT_INDEXED.finditer(text)):
        found = every[-1]  # an earlier match may be of uv, before a retry with pip
        says = "the package index has no {} for this Python"
        stated = re.escape(next(filter(None, found.groups())))
        if re.search(rf"\b{stated} was not found in the package registry", text):
            says = "the package index has no {}"
            remedy = f"correct its name, or name the index that has it, as --extra-index-url in a requirements file; otherwise {remedy}"
    else:
        return None
    name = next(filter(None, found.groups()))
    return _finding("requirement-fails", says.format(name), remedy, text, link="image", subject=name)


_NO_GPU = (
    r"Found no NVIDIA driver on your system|No CUDA GPUs are available|Torch not compiled with CUDA enabled|"
    r"libcuda\.so\.1: cannot open|CUDA driver version is insufficient|no CUDA-capable device is detected|"
    r"Unable to initialize backend 'cuda'|could not select device driver|CUDA (?:is )?(?:not available|required)|"
    r"[Nn]o GPU (?:found|detected|available)|requires a GPU|NVIDIA-SMI has failed|hip(?:ErrorNoDevice)"
)


def _of_gpu(text: str, _code: int | None, _around: Around) -> Finding | None:
    found = re.search(_NO_GPU, text)
    if found is None:
        return None
    return _finding(
        "gpu-absent", f"the program needs a GPU, but sees none: {line_at(text, found.start())}",
        "check nvidia-smi on this machine, then install the NVIDIA Container Toolkit and set DKDBG_GPU=nvidia; or run on the CPU "
        "(CUDA_VISIBLE_DEVICES= and its device option)",
        text, link="gpu",
    )  # fmt: skip


#: Errors about a path in IMAGE_FILES (_IN_IMAGE_FILES), and failed imports of a script in that folder, which then comes
#: first on sys.path (_IN_IMAGE_SCRIPT).
_IN_IMAGE_FILES = re.compile(
    rf"^(?:[A-Za-z_][\w.]*Error: |python[\d.]*: can't open file )[^\n]*{IMAGE_FILES}/", re.MULTILINE
)
_IN_IMAGE_SCRIPT = re.compile(
    rf'^  File "{IMAGE_FILES}/[^\n]*\n(?: {{4}}[^\n]*\n)*ModuleNotFoundError: No module named \'(\w+)',
    re.MULTILINE,
)


def _of_image_files(text: str, _code: int | None, around: Around) -> Finding | None:
    missing = _IN_IMAGE_SCRIPT.search(text)
    if not _IN_IMAGE_FILES.search(text) and (missing is None or missing[1] not in around.own):
        return None
    return _finding(
        "data-missing", f"the program resolved a link to a file that only the image has, and looks for others beside it in {IMAGE_FILES}",
        "create the linked file in the checkout too, with the command of the Dockerfile that made it", text,
    )  # fmt: skip


#: Pattern of the last error; cause, what is wrong, remedy.
_LAST_ERRORS = (
    (
        (r"Name or service not known|failure in name resolution|No address associated with hostname|NoBrokersAvailable"
        r"|[Cc]onnection refused|could not translate host name|No route to host|Max retries exceeded|LocalEntryNotFoundError"),
        "service-absent", "the program connects to something that does not answer",
        "if it is a service: start it first (docker compose ps shows it, depends_on starts it); this machine: a container reaches it as host.docker.internal; an internet host: the container needs DNS, a route, perhaps a proxy",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED", "certificate", "the container does not trust a certificate",
        "give it the CA of your network: docs/how-to/private-ca.md",
    ),
    (
        r"\[Errno 28\]|No space left on device", "disk-full", "a disk is full",
        "docker system df shows what fills it; docker builder prune removes old builds",
    ),
    (
        r"CUDA out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED", "gpu-memory", "the GPU has too little free memory",
        "nvidia-smi shows which processes use it; or use a smaller batch",
    ),
    (
        r"api_key not configured|wandb\.login|GatedRepo|401 Client Error|hf auth login|huggingface-cli login",
        "login-missing", "the program wants a login",
        "add environment: [WANDB_API_KEY] or [HF_TOKEN] to your service, with its value in .env; WANDB_MODE=offline needs no key",
    ),
    (
        r"EOF when reading a line|Inappropriate ioctl for device|setupterm", "terminal-missing",
        "the program asks for input on a terminal, but has none", "dkdbg run gives it yours; or give the answer as an argument",
    ),
    (
        r"environment variable (?:RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT) expected|^KeyError: '(?:LOCAL_)?RANK'",
        "launcher-missing", "the program is meant to be started by torchrun",
        "dkdbg init --command 'torchrun --nproc-per-node 2 train.py'",
    ),
    (
        r"no \$DISPLAY|NoSuchDisplay|[Cc](?:annot|ould not) connect to (?:X server|display)|gladLoadGL|GLFWError",
        "display-missing", "the program draws on a display, but has none",
        "without a display: MPLBACKEND=Agg, QT_QPA_PLATFORM=offscreen or MUJOCO_GL=egl in its environment; or xvfb-run before the command",
    ),
    (
        r"invalid load key, 'v'|HeaderTooLarge", "lfs-pointer", "a file that the program reads is a Git LFS pointer, not its content",
        "git lfs install, then git lfs pull",
    ),
    (
        r"attempted relative import with no known parent package", "own-module", "a module of a package was started as a file",
        "start it as a module, from the folder above its package: dkdbg init --command 'python -m PACKAGE.MODULE'",
    ),
    (
        r"unsupported operand type\(s\) for \|: 'type'|'(?:type|ABCMeta)' object is not subscriptable", "syntax",
        "this Python does not understand the source",
        "is the image's Python older than your code needs? dkdbg init --python 3.11 for the Dockerfile that init writes, FROM in your own",
    ),
    (
        r"\[E050\]|unable to open database file", "data-missing", "something that the program reads does not exist",
        "download or create it in the image, in a RUN of its Dockerfile; or mount its folder: volumes of your service",
    ),
    (
        (r"cannot import name '[^']+' from '[^']+' \([^)]*-packages/"
        r"|module '(?:numpy|pandas|torch|scipy|tensorflow|jax|PIL|sklearn|transformers|collections|inspect|ast|time)\b[^']*' has no"
        r"|numpy\.\w+ size changed|compiled using NumPy 1|\.so: undefined symbol: |version `GLIBC[^\n]*' not found"),
        "version-conflict", "the image has another version of a package than the code was written for",
        "pin the right version in the file that the image installs from, such as numpy<2, then dkdbg verify",
    ),
)  # fmt: skip


def _of_last_error(text: str, _code: int | None, _around: Around) -> Finding | None:
    last = last_error(text)
    for pattern, cause, says, remedy in _LAST_ERRORS:
        if re.search(pattern, last):
            return _finding(cause, f"{says}: {last}", remedy, text)
    return None


_MISSING = re.compile(
    r"(?:ModuleNotFoundError|ImportError|python[\d.]*): No module named '?(?![\w.]*\.__main__)([\w.]+)'?"
)
#: Modules of the standard library that not every Python has -> minor version of the last Python that has them
#: (_LAST_WITH), or of the first one (_FIRST_WITH).
_LAST_WITH = {
    **dict.fromkeys(("asynchat", "asyncore", "distutils", "imp", "smtpd"), 11),
    **dict.fromkeys(("aifc", "audioop", "cgi", "cgitb", "crypt", "imghdr", "lib2to3", "pipes", "sndhdr", "telnetlib", "uu"), 12),
}  # fmt: skip
_FIRST_WITH = {"zoneinfo": 9, "graphlib": 9, "tomllib": 11, "annotationlib": 14, "compression": 14}
#: Modules that setuptools provides, which venv installed up to Python 3.11.
_OF_SETUPTOOLS = frozenset({"distutils", "pkg_resources", "setuptools"})


def missing_module(text: str) -> str:
    """Return the top-level name of the module that a traceback reports as missing; empty without such an error."""
    found = _MISSING.search(text)
    return found[1].split(".")[0] if found else ""


def _of_import(text: str, _code: int | None, around: Around) -> Finding | None:
    if found := _MISSING.search(text):
        name = found[1].split(".")[0]
        if name == "debugpy":
            return _finding(
                "debugpy-missing", "the program imports debugpy, which is not installed in the image",
                "remove debugpy from the program and its command: dkdbg's agent brings its own; or pip install debugpy in the image",
                text, link="agent",
            )  # fmt: skip
        named = distributions((found[1] if name == "google" else name,))  # a package of many distributions
        where = around.named_in(named[0]) if named else ""
        is_declared = where and is_known(name) and found[1] == name
        if name in around.own and not is_declared:
            if writer := around.written_by(found[1]):
                return _finding(
                    "own-module", f"your module {found[1]} is not there: {writer} writes it when the repository is installed",
                    "install it once in the checkout, which is mounted: pip install -e .", text,
                )  # fmt: skip
            if "." in found[1]:  # Python found the package, not the module in it
                return _of_submodule(found[1], text, around)
            return _finding(
                "own-module", f"Python does not find your module {found[1]}",
                f"put its folder on PYTHONPATH in the service's environment, or start the program from the folder above {name}",
                text,
            )  # fmt: skip
        if name in _LAST_WITH or name in _FIRST_WITH or name in _OF_SETUPTOOLS:
            return _of_python(name, text, around)
        if name in sys.stdlib_module_names:
            return _finding(
                "python-incomplete", f"the Python of the image was built without {name}, a standard module",
                "use another base image, such as python:3.11; Debian packages some separately: python3-tk, python3-dbm", text,
            )  # fmt: skip
        if not named or around.installs_from is None:
            return _finding(
                "module-missing", f"the module {name} is not installed where the program runs",
                f"install it there: pip install {named[0]}" if named else "install the distribution that has it: none on the index has that name", text,
            )  # fmt: skip
        distribution = named[0]
        file, line, then = around.installs_from(distribution)
        if not (is_known(name) or where):  # anyone may have registered the module's name on PyPI
            return _finding(
                "module-missing", f"the module {name} is not installed in the image, and no requirements file names a distribution that has it",
                f"check that the distribution {distribution} of the package index is the one you mean, and add {line} to {file}; or create {name} in the image", text,
            )  # fmt: skip
        return _finding(
            "module-missing", f"the module {name} is not installed in the image, {f'though {where} names it' if where else 'and no file declares it'}",
            f"add {line} to {file} (distribution {distribution}), then {then}" if line else then, text, subject=distribution,
        )  # fmt: skip
    if found := re.search(r"\b(lib[\w+.-]{0,100}\.so[\w.]{0,20}): cannot open shared object file", text):
        library = found[1]
        package = package_of_library(library)
        remedy = (
            f"install {package} in the image: RUN apt-get update && apt-get install -y --no-install-recommends {package}; or, in the Dockerfile of dkdbg init: dkdbg verify --fix"
            if package
            else f"install the package that has {library}: apt-file search {library}"
        )
        says = f"the system library {library} is not in the image"
        return _finding("library-missing", says, remedy, text, subject=package)
    return None


def _of_submodule(module: str, text: str, around: Around) -> Finding:
    """Return the finding for a module that Python does not find in the repository's package."""
    package, _, name = module.rpartition(".")
    if file := around.file_of(module):
        return _finding(
            "own-module", f"Python finds a {package} without {name}, which yours has: {file}",
            f"another {package} comes first on Python's path: put the folder above yours on PYTHONPATH in the service's environment, or rename one of them", text,
        )  # fmt: skip
    folder = re.sub(r"(?:/__\w+__)?\.py$", "", around.file_of(package) or package.replace(".", "/"))
    # The last part of the traceback's import: `from .align.core import x` lacks align.align before align.align.core.
    asked = re.findall(r"^[ \t]+from [\w.]{0,200}?(\w{1,100}) import ", text, re.MULTILINE)[-1:]
    source = next(filter(None, (around.lies_at(f"{each}.pyx") for each in (name, *asked))), "")
    if source:
        return _finding(
            "own-module", f"your package {package} has no {name}: {source} is not compiled",
            "build it in the checkout, which is mounted: dkdbg init prints the line that does", text,
        )  # fmt: skip
    return _finding(
        "own-module", f"your package {package} has no {name}: there is no {folder}/{name}.py",
        f"correct the name, or restore the file: git log --all --stat -- '*{name}.py' shows a renamed or deleted one, git submodule update --init fetches a submodule's; "
        "pip install -e . makes a compiled or generated one in the checkout", text,
    )  # fmt: skip


def _of_python(name: str, text: str, around: Around) -> Finding:
    """Return the finding for a module of the standard library that this Python lacks and another version has."""
    minor = _LAST_WITH.get(name) or _FIRST_WITH.get(name) or 11
    which = "first" if name in _FIRST_WITH else "last"
    remedy = f"dkdbg init --python 3.{minor} for the Dockerfile that init writes, FROM in your own"
    if name in _OF_SETUPTOOLS:
        file = around.installs_from("setuptools")[0] if around.installs_from else "what is installed there"
        remedy = f"add setuptools<81 to {file}; or {remedy}"
    return _finding(
        "python-version", f"Python 3.{minor} is the {which} that has the module {name}", remedy, text
    )


_ARGUMENTS = (
    r"error: the following arguments are required: ([^\n]+)",
    r"(?:Error: |│ )Missing (?:option|argument|parameter) ['\"]?([^'\"\n]+)",
    r"(?:Error: |│ )Missing (command)\b",
    r"(sys\.argv\[\d\])[^\n]*\n(?:[ ^~]*\n)?IndexError: list index out of range",
    r"Missing mandatory value: ([^\n]+)",
    r"ERROR: The function received no value for the required argument: ([^\n]+)",
    r"Missing option[^\n]*?(--[\w-]+)",
    r"error: one of the arguments ([^\n]+) is required",
    r"Field required[^\n]*\n[^\n]*?(--[\w-]+)",
    r"Field required[^\n]*?(--[\w-]+)",
    r"FLAGS?[^\n]*?--(\w+) must be specified|Flag --(\w+) must have a value",
)


def _of_arguments(text: str, code: int | None, around: Around) -> Finding | None:
    command = around.command or "python train.py"
    if found := re.search(
        r"^(?:Could not override|Error merging override|Cannot find primary config) '", text, re.MULTILINE
    ):
        return _finding(
            "argument-wrong", f"Hydra refuses the configuration: {line_at(text, found.start())}",
            f"correct the file, or the KEY=VALUE in dkdbg init --command {shlex.quote(command)}", text,
        )  # fmt: skip
    for pattern in _ARGUMENTS:
        if found := re.search(pattern, text):
            names = next(each for each in found.groups() if each).strip().rstrip(".")
            shown = " ".join(
                f"{word} VALUE" if word.startswith("--") else "VALUE" if word.startswith("sys.") else word
                for word in re.split(r",\s*|\s+or\s+", names)
            )
            return _finding(
                "argument-missing", f"the program demands {names}",
                f"give it: dkdbg init --command {shlex.quote(f'{command} {shown}')}", text, subject=names,
            )  # fmt: skip
    refused = re.fullmatch(r"\S+: error: (.+)", _last_line(text))
    if code in {None, _USAGE} and re.search(r"^usage: ", text, re.MULTILINE) and (refused or code):
        return _finding(
            "argument-wrong", f"the program refuses its arguments: {refused[1] if refused else _last_line(text)}",
            f"correct them: dkdbg init --command {shlex.quote(command)}", text,
        )  # fmt: skip
    return None


_WITH_LF = f"write it with LF in the checkout: {with_lf('SCRIPT.sh')}"
#: Pattern; cause, what is wrong, remedy, link. {0} is the match, {1} its first group, {line} its line.
_FILE_ERRORS = (
    (
        r"\[FATAL tini[^\n\]]*\] exec sh failed", "shell-missing", *NO_SHELL, "agent",
    ),
    (
        (r"(?:\^M|\\r|\r)['\"\u2019]?: (?:\[Errno 2\] )?(?:bad interpreter|No such file or directory|not found|invalid option)|\$'\\r': command not found"
        r"|set: (?:line \d+: )?[Ii]llegal option -\r?(?:\n|$)"),
        "crlf", "a script of the image has CRLF line ends: {line}", _WITH_LF, "file",
    ),
    (r"dkdbg: ([^\n]+ has CRLF line ends \(its interpreter[^\n]*)", "crlf", "{1}", _WITH_LF, "file"),
    (
        (r"Could not import module \"[^\"\n]+|Attribute \"[^\"\n]+\" not found in module|Unable to load celery application"
        r"|Could not locate a Flask application|Error: Invalid value: File does not exist: [^\n]+"),
        "program-absent", "the server cannot find the program: {line}",
        "correct the command (dkdbg init --command 'uvicorn PACKAGE.MODULE:app') or its folder (working_dir of the service)", "file",
    ),
    (
        r": No module named ([\w.]{1,200})\.__main__; ", "program-absent", "the package {1} has no __main__.py, which python -m {1} runs",
        "name a module of it: dkdbg init --command 'python -m {1}.MODULE'", "file",
    ),
    (
        r"can't open file '?([^':\n]+)'?: \[Errno 2\]", "program-absent", "there is no {1} where the program runs",
        "correct the command (after --, or dkdbg init --command 'python PATH') or its folder (working_dir of the service)", "file",
    ),
    (
        r"dkdbg: (cannot start ([^\n]+): the interpreter in its first line does not exist)", "command-missing", "{1}",
        "install it in the image, or correct the first line of {2}", "file",
    ),
    (
        r"\[Errno 30\]|[Rr]ead-only file system", "read-only", "the program writes to a read-only file system: {line}",
        "mount that folder writable (volumes, tmpfs), or name another output folder", "program",
    ),
    (
        (r"Failed to spawn: `((?:[^`\n]*/)?([^`/\n]+))`"
        r"|in _execute_child\n[^\n]*\n(?:[ ^~]*\n)?FileNotFoundError: \[Errno 2\] [^\n]*: '(([^'/\n]+))'"),
        "command-missing", "the program starts {1}, but there is no such command where it runs",
        "install it there: apt = [\"{2}\"] in dkdbg.toml, then dkdbg init (for the Dockerfile that init writes), or in a RUN of your own: apt-get install {2}; or the package that has it", "program",
    ),
)  # fmt: skip
_MACHINE_ERRORS = (
    (
        r"can only run as pid 1|not been booted with systemd", "not-process-1",
        "an init system has to be process 1 of its container, but in the debug service the agent is process 1: {line}",
        "name the program itself: dkdbg init --command 'python train.py'", "command",
    ),
    (
        r"Bus error|unable to (?:write to file|open shared memory)[^\n]*|insufficient shared memory", "shared-memory",
        "shared memory is too small: {0}", "shm_size: 8gb for the service, or ipc: host", "program",
    ),
    (
        r"E: Unable to locate package ([^\s]{1,200})", "requirement-fails", "apt finds no package {1} in the image",
        "correct its name in the Dockerfile, and run apt-get update in the same RUN", "image",
    ),
    (
        r"[Ee]xec format error", "architecture", "the image is for another CPU architecture", "build it here: docker compose build", "image",
    ),
)  # fmt: skip


def _of_row(text: str, rows: Sequence[tuple[str, str, str, str, str]]) -> Finding | None:
    for pattern, cause, says, remedy, link in rows:
        if found := re.search(pattern, text):
            parts = (found[0], *filter(None, found.groups()))
            what = says.format(*parts, line=line_at(text, found.start()))
            return _finding(cause, what, remedy.format(*parts), text, link=link)
    return None


def _of_system(text: str, code: int | None, around: Around) -> Finding | None:
    if finding := _of_row(text, _FILE_ERRORS):
        return finding
    if found := re.search(r"FileNotFoundError: |No such file or directory", text):
        shown = line_at(text, found.start()).removeprefix("FileNotFoundError: ").removeprefix("[Errno 2] ")
        path = re.search(r"['\"]([^'\"]+)['\"]|([\w.-]{0,200}/[\w./-]+)", shown)
        name = path[1] or path[2] if path else shown
        remedy = "put it into the repository's folder, which is mounted, or mount its folder: volumes of your service"
        if own := around.lies_at(name):
            remedy = f"the repository has {own}: start the program in the folder from which its path leads there, dkdbg init --command {shlex.quote(f'cd FOLDER && {around.command}')}, or correct the path"
        return _finding(
            "data-missing",
            f"a file that the program reads does not exist: {name}",
            remedy,
            text,
            subject=name,
        )
    # The agent runs in this image, so the architecture is right; what is missing is a `#!` line.
    if found := re.search(
        r"^dkdbg: cannot execute ([^\n]+): (?:Permission denied|Exec format error)$", text, re.MULTILINE
    ):
        return _finding(
            "not-executable", found[0].removeprefix("dkdbg: "),
            f"begin the command with its interpreter: python {shlex.quote(found[1])}; or chmod +x, and a first line such as #!/usr/bin/env python3", text,
        )  # fmt: skip
    if found := re.search(r"PermissionError|\[Errno 13\]|Permission denied", text):
        return _finding(
            "permission", f"the program may not read or write a file: {line_at(text, found.start())}",
            "ls -ln shows its owner and mode: run the service as that user (user:), or chmod", text,
        )  # fmt: skip
    if found := re.search(r"Address already in use|\[Errno 98\]|error while attempting to bind", text):
        line = line_at(text, found.start())
        remedy = "let it listen on another port, or stop the other program: ss -ltnp shows it"
        debug_port = _DEBUG_PORT.search(text)
        if debug_port and re.search(rf"\b{debug_port[1]}\b", line):
            remedy = f"{debug_port[1]} is the debug port: change it with port = {int(debug_port[1]) + 1} under [debug] in dkdbg.toml, then dkdbg init and dkdbg up"
        return _finding(
            "port-taken", f"a port that the program listens on is taken: {line}", remedy, text, link="port"
        )
    if finding := _of_row(text, _MACHINE_ERRORS):
        return finding
    if code == _OUT_OF_MEMORY:
        return _finding(
            "killed", "the program was killed (137), most likely because memory ran out",
            "dmesg shows whether memory ran out; then raise mem_limit of the service, or use a smaller batch", text,
        )  # fmt: skip
    if code in {_NOT_FOUND, _NOT_EXECUTABLE} or re.search(
        r"cannot execute|executable file not found|command not found", text
    ):
        return _finding(
            "command-missing", f"there is no such command where the program runs: {_last_line(text) or around.command}",
            "install it there, or correct the command: after --, or dkdbg init --command 'python train.py'", text,
        )  # fmt: skip
    return None


#: Messages about an unset variable from shells and programs, and pydantic's about the first missing setting.
_UNSET = re.compile(r"^[^\n]*?\b(\w+): (?:parameter (?:null or )?not set|unbound variable)$", re.MULTILINE)
_VARIABLE = re.compile(
    r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+) (?:environment variable|not found\. Declare it as envvar)"
    r"|environment variable:? [\"'`]?([A-Z][A-Z0-9]*_[A-Z0-9_]+)"
)
_SETTINGS = re.compile(r"validation errors? for \w*(?:Settings|Config)\n(\w+)\n\s+Field required")
#: A SyntaxError, with the file name of a text that was passed to eval, exec or ast.literal_eval.
_NOT_PARSED = re.compile(
    r'(?:^ *File "<(string|unknown)>", line \d+\n(?:[ \t][^\n]*\n){0,2})?(SyntaxError: [^\n]*)', re.MULTILINE
)


def _of_code(text: str, _code: int | None, _around: Around) -> Finding | None:
    found = re.search(r"KeyError: '([A-Z][A-Z0-9_]+)'", text) if "environ" in text else None
    if found := found or _VARIABLE.search(last_error(text)) or _SETTINGS.search(text) or _UNSET.search(text):
        name = next(filter(None, found.groups())).upper()
        return _finding(
            "variable-missing", f"the environment variable {name} is not set where the program runs",
            f"environment: [{name}] of your service, and its value in .env", text, subject=name,
        )  # fmt: skip
    if found := _NOT_PARSED.search(text):
        if found[1]:
            return _finding(
                "argument-wrong", f"the program evaluates a text that is not Python: {found[2]}",
                "correct that text: it is an argument of the command (dkdbg init --command 'python train.py ARGUMENT'), or from a configuration file", text,
            )  # fmt: skip
        return _finding(
            "syntax", f"this Python does not understand the source: {found[2]}",
            "correct it; if the image's Python is too old for it: `python` in dkdbg.toml, or FROM in your own Dockerfile", text,
        )  # fmt: skip
    return None


def _finding(
    cause: str, says: str, remedy: str, text: str, *, link: str = "program", subject: str = ""
) -> Finding:
    lines = [line for line in text.splitlines() if line.strip()][-_SHOWN_LINES:]
    return Finding(link=link, cause=cause, says=says, remedy=remedy, detail=tuple(lines), subject=subject)


def last_error(text: str) -> str:
    """Return the line of the last uncaught exception; empty if there is no traceback."""
    _, traceback, rest = text.rpartition("Traceback (most recent call last):\n")
    raised = next((line for line in rest.splitlines() if line and not line.startswith(" ")), "")
    if traceback and raised:
        return raised[:300]
    found = re.findall(r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b[^\n]*)", text, re.MULTILINE)
    return found[-1][:300] if found else ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("dkdbg:")]
    return lines[-1][:200] if lines else ""


def _called(code: int | None) -> str:
    return "an unknown code" if code is None else f"exit code {code}"


def interpreters_with(module: str, first: str = "") -> str:
    """Return a shell script that prints the interpreters that can import a top-level module; it tries `first` first."""
    if not re.fullmatch(r"\w+", module):
        return "true"
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return (
        f"for each in {shlex.quote(first)} {' '.join(_INTERPRETERS)}; do case $each in *-config|*-dbg) continue ;; esac; "
        f'command -v "$each" >/dev/null && "$each" -c "{code}" 2>/dev/null && echo "$each"; done; true'
    )


def hidden_by_options(finding: Finding, module: str, python: str, options: Sequence[str]) -> Finding:
    """Turn the finding for a missing module into one for Python options that hide it."""
    words = " ".join(options)
    return replace(
        finding, link="command", subject="", says=f"the program runs under {python} {words}, which hides the module {module} from it",
        remedy=f"leave {words} out of the command: dkdbg init --command {shlex.quote(f'{python} ...')}",
    )  # fmt: skip


def in_other_interpreter(finding: Finding, module: str, python: str) -> Finding:
    """Turn the finding for a missing module into one for the wrong interpreter."""
    return replace(
        finding, link="process", cause="other-interpreter",
        says=f"the program runs under an interpreter without {module}, which {python} has",
        remedy=f"start it with that one: dkdbg init --command {shlex.quote(f'{python} ...')}, or put {python.rpartition('/')[0]} first on PATH in the image",
    )  # fmt: skip


def places_of(module: str) -> str:
    """Return a shell script that prints the first usual folder in an image that contains a top-level module."""
    if not re.fullmatch(r"\w+", module):
        return "true"
    return (
        f"for each in '' {' '.join(_FOLDERS)}; do case $each in /proc*|/sys*|/dev*|/etc*|/var*|/tmp*|/usr/lib*|/usr/share*) continue ;; esac; "
        f'[ -f "$each/{module}.py" ] || ls "$each/{module}"/*.py >/dev/null 2>&1 || continue; echo "${{each:-/}}"; break; done; true'
    )


def in_image(finding: Finding, module: str, folder: str) -> Finding:
    """Turn the finding for a missing module into one for a folder of the image that is missing on Python's path."""
    return replace(
        finding, cause="own-module", subject="", says=f"Python does not find the module {module}, which the image has in {folder}",
        remedy=f"put {folder} on PYTHONPATH in the service's environment, or start the program there: working_dir of the service",
    )  # fmt: skip


def environments(entrypoint: Sequence[str]) -> str:
    """Return a script that, in the image, prints the environment without and with its ENTRYPOINT.

    Return "" for an ENTRYPOINT in shell form and for one that starts Python: they would not run the appended `env`.
    """
    in_shell = entrypoint[1:] and re.fullmatch(r"-\w*c", entrypoint[1])
    if not entrypoint or in_shell or PYTHON.starts(entrypoint[0]):
        return ""
    return f"env; echo {_SEPARATOR}; {shlex.join(entrypoint)} env"


def without_entrypoint(finding: Finding, entrypoint: Sequence[str], seen: str, around: Around) -> Finding:
    """Turn the finding into one for a skipped ENTRYPOINT, if the ENTRYPOINT sets variables that the program lacks.

    Args:
        entrypoint: the words of the image's ENTRYPOINT.
        seen: output of the script that `environments` returns.
    """
    before, _, after = seen.partition(_SEPARATOR)
    lacks = {line for line in after.splitlines() if line.startswith(_SEARCHED)} - set(before.splitlines())
    if not lacks:
        return finding
    command = f"{shlex.join(entrypoint)} {around.command}"
    return replace(
        finding, link="command", cause="entrypoint-left-out", subject=command,
        says=f"{finding.says}; the program runs without the ENTRYPOINT {shlex.join(entrypoint)}, which the image inherits from its base image",
        remedy=f"dkdbg init --command {shlex.quote(command)}, or dkdbg verify --fix; if that changes nothing: {finding.remedy}",
    )  # fmt: skip


#: A failed step of a build with its last lines, which BuildKit repeats at the end of its output.
_STEP = re.compile(r"^ > \[[^\]\n]*\] ([^\n]+):\n((?:(?!------$| > \[).*\n)*)------$", re.MULTILINE)
_ERROR_LINE = re.compile(r"\bE:|[Ee]rror\b|ERROR|\b[Ff]atal\b|\b[Ff]ail(?:ed|ure)\b")


def of_start(error: DkdbgError, output: Sequence[str], around: Around) -> Finding:
    """Return the finding for a start that failed; `output`: the lines that it printed before."""
    text = error.message
    first, *more = text.splitlines()
    found = next((each for each in _START_CAUSES if re.search(each[0], text, re.IGNORECASE)), None)
    if found is None and any("ERROR" in line for line in output):  # a failed build printed the cause
        said = "\n".join(output)
        ended = of_requirement(said) or cause_of(said, None, around)
        if ended.cause not in _VAGUE_CAUSES:
            return ended
        found = ("", "image", "build-fails")
    _, link, cause = found or ("", "start", "not-started")
    lines = tuple(line for line in output[-_SHOWN_LINES:] if line.strip())
    remedy = (
        "docker compose --profile debug build shows the whole output"
        if cause == "build-fails"
        else error.hint
    )
    if cause == "build-fails" and (step := _STEP.search(bounded("\n".join(output)))):
        lines = tuple(line for line in step[2].splitlines() if line.strip())[-_SHOWN_LINES:]
        errors = [line for line in lines if _ERROR_LINE.search(line)] or lines
        last = re.sub(r"^\d+\.\d+ ", "", errors[-1])[:200] if errors else "it printed nothing"
        first = f"the step {step[1][:120]} failed: {last}"
        remedy = remedy if errors else "let the step print why (remove its -q), then dkdbg verify"
    printed = {each.strip() for each in output}
    more = [line for line in more if line.strip() not in printed]
    return Finding(
        link=link, cause=cause, says=first, remedy=remedy or "dkdbg up shows more", detail=(*more, *lines)
    )
