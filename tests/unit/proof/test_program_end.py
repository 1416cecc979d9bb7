"""The cause of a program's end is read from its last lines, as Python, argparse, click, glibc and CUDA write them."""

import re
import subprocess
import time
from dataclasses import replace

import pytest

from dkdbg.proof import program_end
from dkdbg.proof.finding import Finding
from dkdbg.proof.program_end import Around, cause_of, in_image, missing_module, of_agent, places_of
from dkdbg.verbs.parts.proof_repair import around

AROUND = Around(
    installs_from=lambda name: ("requirements.txt", name, "dkdbg verify"),
    own={"model", "train"},
    command="python train.py",
)
TRACEBACK = 'Traceback (most recent call last):\n  File "/app/train.py", line 3, in <module>\n'


@pytest.mark.parametrize(
    "error",
    [
        TRACEBACK
        + "FileNotFoundError: [Errno 2] No such file or directory: '/opt/dkdbg-image/conf/run.txt'\n",
        "python3: can't open file '/opt/dkdbg-image/train.py': [Errno 2] No such file or directory\n",
        "Traceback (most recent call last):\n  File \"/opt/dkdbg-image/src/run.py\", line 1, in <module>\n    import lib\nModuleNotFoundError: No module named 'lib'\n",
    ],
)
def test_an_error_beside_the_images_files_names_the_link_that_the_program_resolved(error):
    found = cause_of(error, 1, replace(AROUND, own={"lib"}))
    assert (found.cause, "resolved a link" in found.says) == ("data-missing", True)


@pytest.mark.parametrize(
    ("text", "code", "cause"),
    [
        (TRACEBACK + "ModuleNotFoundError: No module named 'cv2'\n", 1, "module-missing"),
        (TRACEBACK + "ModuleNotFoundError: No module named 'model.net'\n", 1, "own-module"),
        (TRACEBACK + "ModuleNotFoundError: No module named 'debugpy'\n", 1, "debugpy-missing"),
        (TRACEBACK + "ImportError: libGL.so.1: cannot open shared object file: No such file or directory\n", 1, "library-missing"),
        (TRACEBACK + "OSError: libcudart.so.12: cannot open shared object file: No such file or directory\n", 1, "library-missing"),
        ("usage: train.py [-h] --data DATA\ntrain.py: error: the following arguments are required: --data\n", 2, "argument-missing"),
        ("usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --datta x\n", 2, "argument-wrong"),
        ("usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --datta x\n", None, "argument-wrong"),
        ("Usage: train.py [OPTIONS]\nTry 'train.py --help' for help.\n\nError: Missing option '--config'.\n", 2, "argument-missing"),
        ("Error: Missing argument 'PATH'.\n", 2, "argument-missing"),
        (TRACEBACK + "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path\n", 1, "argument-missing"),
        (TRACEBACK + "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'\n", 1, "data-missing"),
        ("python3: can't open file '/app/trian.py': [Errno 2] No such file or directory\n", 2, "program-absent"),
        (TRACEBACK + "OSError: [Errno 30] Read-only file system: 'out.txt'\n", 1, "read-only"),
        (TRACEBACK + "PermissionError: [Errno 13] Permission denied: '/data/x'\n", 1, "permission"),
        (TRACEBACK + "OSError: [Errno 98] Address already in use\n", 1, "port-taken"),
        ("/bin/sh: 1: /entry.sh: not found\nexec /entry.sh: no such file or directory\nenv: 'bash\\r': No such file or directory\n", 127, "crlf"),
        (TRACEBACK + "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n", 1, "gpu-absent"),
        (TRACEBACK + "AssertionError: Torch not compiled with CUDA enabled\n", 1, "gpu-absent"),
        ("s6-overlay-suexec: fatal: can only run as pid 1\n", 100, "not-process-1"),
        ("RuntimeError: DataLoader worker (pid 42) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.\n", 1, "shared-memory"),
        ("epoch 1\n", 137, "killed"),
        ("sh: 1: trainer: command not found\n", 127, "command-missing"),
        ('  File "/app/train.py", line 4, in <module>\n    key = os.environ["WANDB_API_KEY"]\nKeyError: \'WANDB_API_KEY\'\n', 1, "variable-missing"),
        ("dkdbg: no debugpy for Python 3.6 (/usr/bin/python3); found: none; this Python is too old: the program runs without the debugger\n", 0, "debugpy-missing"),
        ("dkdbg: [Errno 30] Read-only file system: '/tmp/dkdbg': the program runs without the debugger\n", 0, "read-only"),
        (TRACEBACK + "ModuleNotFoundError: No module named '_sqlite3'\n", 1, "python-incomplete"),
        (TRACEBACK + "socket.gaierror: [Errno -2] Name or service not known\n", 1, "service-absent"),
        (TRACEBACK + "ConnectionRefusedError: [Errno 111] Connection refused\n", 1, "service-absent"),
        (TRACEBACK + "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self signed certificate\n", 1, "certificate"),
        (TRACEBACK + "OSError: [Errno 28] No space left on device: '/app/x'\n", 1, "disk-full"),
        (TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", 1, "gpu-memory"),
        (TRACEBACK + "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])\n", 1, "login-missing"),
        (TRACEBACK + "EOFError: EOF when reading a line\n", 1, "terminal-missing"),
        (TRACEBACK + "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set\n", 1, "launcher-missing"),
        (TRACEBACK + "ImportError: cannot import name 'url_quote' from 'werkzeug.urls' (/usr/lib/python3/dist-packages/werkzeug/urls.py)\n", 1, "version-conflict"),
        (TRACEBACK + "AttributeError: module 'numpy' has no attribute 'float'\n", 1, "version-conflict"),
        ("/usr/bin/python3: No module named uvicorn\n", 1, "module-missing"),
        ("/usr/bin/python3: No module named model.trian\n", 1, "own-module"),
        (TRACEBACK + "ImportError: attempted relative import with no known parent package\n", 1, "own-module"),
        (TRACEBACK + "ModuleNotFoundError: No module named 'imp'\n", 1, "python-version"),
        (TRACEBACK + "ModuleNotFoundError: No module named 'tomllib'\n", 1, "python-version"),
        (TRACEBACK + "TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'\n", 1, "syntax"),
        (TRACEBACK + "ImportError: /usr/lib/python3/dist-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c10\n", 1, "version-conflict"),
        (TRACEBACK + "kafka.errors.NoBrokersAvailable: NoBrokersAvailable\n", 1, "service-absent"),
        (TRACEBACK + "_tkinter.TclError: no display name and no $DISPLAY environment variable\n", 1, "display-missing"),
        (TRACEBACK + "_pickle.UnpicklingError: invalid load key, 'v'.\n", 1, "lfs-pointer"),
        (TRACEBACK + "OSError: [E050] Can't find model 'en_core_web_sm'.\n", 1, "data-missing"),
        ("error: Failed to spawn: `train`\n  Caused by: No such file or directory (os error 2)\n", 2, "command-missing"),
        ("╭─ Error ───╮\n│ Missing argument 'DATA'.  │\n╰───────────╯\n", 2, "argument-missing"),
        ("Usage: cli.py COMMAND\n\nError: Missing command.\n", 2, "argument-missing"),
        ("Could not override 'data.x'.\nKey 'x' is not in struct\n", 1, "argument-wrong"),
        (TRACEBACK + '  File "<unknown>", line 1\n    ./out\n    ^\nSyntaxError: invalid syntax\n', 1, "argument-wrong"),
        (TRACEBACK + '  File "<string>", line 1\n    lr = =\n         ^\nSyntaxError: invalid syntax\n', 1, "argument-wrong"),
        (TRACEBACK + '  File "/app/model.py", line 1\n    match x:\n          ^\nSyntaxError: invalid syntax\n', 1, "syntax"),
        ('ERROR:    Error loading ASGI app. Could not import module "main".\n', 1, "program-absent"),
        (TRACEBACK + "openai.OpenAIError: set it by the OPENAI_API_KEY environment variable\n", 1, "variable-missing"),
        ("/entry.sh: 3: NEEDED_VAR: parameter not set\n", 2, "variable-missing"),
        ("/entry.sh: line 3: NEEDED_VAR: unbound variable\n", 1, "variable-missing"),
        ("python3: can't open file '/app/train.py\\r': [Errno 2] No such file or directory\n", 2, "crlf"),
        ("[FATAL tini (7)] exec sh failed: No such file or directory\n", 127, "shell-missing"),
        ("/usr/bin/env: \u2018python3\\r\u2019: No such file or directory\n", 127, "crlf"),
        ("./entry.sh: 2: set: Illegal option -\r\n", 2, "crlf"),
        ("./entry.sh: set: line 2: illegal option -\n", 2, "crlf"),
        ("./entry.sh: line 2: set: -\r: invalid option\nset: usage: set [-abefhkmnptuvxBCEHPT] [--] [-] [arg ...]\n", 2, "crlf"),
        ("dkdbg: ./entry.sh has CRLF line ends (its interpreter is '/bin/sh\\r')\n", 127, "crlf"),
        ("dkdbg: cannot start ./entry.sh: the interpreter in its first line does not exist\n", 127, "command-missing"),
        ("WARNING: Connection refused, tried again\n" + TRACEBACK + "ValueError: bad shape\n", 1, "program-ends"),
    ],
)  # fmt: skip
def test_the_cause_is_the_kind_of_the_last_error(text, code, cause):
    found = cause_of(text, code, AROUND)
    assert found.cause == cause, found
    assert found.remedy
    assert text.strip().splitlines()[-1] in found.detail


def test_a_missing_module_is_named_by_its_distribution_with_the_line_for_the_file_that_the_image_installs():
    found = cause_of(TRACEBACK + "ModuleNotFoundError: No module named 'sklearn.svm'\n", 1, AROUND)
    assert found.subject == "scikit-learn"
    assert "add scikit-learn to requirements.txt" in found.remedy
    assert missing_module("ModuleNotFoundError: No module named 'sklearn.svm'") == "sklearn"


@pytest.mark.parametrize(
    ("text", "code", "remedy"),
    [
        ("epoch 1\n", 137, "dmesg"),
        (TRACEBACK + "PermissionError: [Errno 13] Permission denied: '/data/x'\n", 1, "(user:)"),
        (TRACEBACK + "socket.gaierror: [Errno -2] Name or service not known\n", 1, "an internet host"),
        ("[FATAL tini (7)] exec sh failed: No such file or directory\n", 127, "if your service sets PATH"),
    ],
)
def test_a_remedy_claims_nothing_about_a_container_that_is_gone_a_host_that_is_no_service_or_an_image(
    text, code, remedy
):
    said = cause_of(text, code, AROUND).remedy
    assert remedy in said
    assert "docker inspect" not in said


@pytest.mark.parametrize(("where", "subject"), [("", ""), ("setup.py", "generated")])
def test_a_name_that_nothing_knows_is_declared_only_if_the_repository_names_it(where, subject):
    text = TRACEBACK + "ModuleNotFoundError: No module named 'generated'\n"
    found = cause_of(text, 1, replace(AROUND, named_in=lambda _: where))
    assert (found.cause, found.subject) == (
        "module-missing",
        subject,
    )  # no subject: --fix adds no stranger's package
    assert ("then dkdbg verify" in found.remedy) is bool(where)


@pytest.mark.parametrize(
    "text",
    [
        "dkdbg: ./a.sh has CRLF line ends (its interpreter is x)\n",
        "env: 'bash\\r': No such file or directory\n",
    ],
)
def test_the_remedy_for_crlf_changes_the_file_that_is_mounted(tmp_path, text):
    (tmp_path / "SCRIPT.sh").write_bytes(b"#!/bin/sh\r\nexit 7\r\n")
    typed = re.search(r"sed -i '[^']+' SCRIPT.sh", cause_of(text, 127, AROUND).remedy)[0]
    subprocess.run(["sh", "-c", typed], cwd=tmp_path, check=True)
    assert (tmp_path / "SCRIPT.sh").read_bytes() == b"#!/bin/sh\nexit 7\n"


@pytest.mark.parametrize(
    ("where", "says"), [("", "and no file declares it"), ("setup.py", "though setup.py names it")]
)
def test_a_missing_module_is_undeclared_only_if_no_file_names_its_distribution(where, says):
    text = TRACEBACK + "ModuleNotFoundError: No module named 'dotenv'\n"
    found = cause_of(text, 1, replace(AROUND, named_in=lambda name: where if name == "python-dotenv" else ""))
    assert found.says == f"the module dotenv is not installed in the image, {says}"


@pytest.mark.parametrize(
    ("module", "where", "cause"),
    [("tabulate", "pyproject.toml", "module-missing"), ("tabulate", "", "own-module"), ("tabulate.x", "pyproject.toml", "own-module"), ("model", "pyproject.toml", "own-module")],
)  # fmt: skip
def test_a_declared_distribution_is_not_taken_for_the_repositorys_module_of_its_name(module, where, cause):
    text = TRACEBACK + f"ModuleNotFoundError: No module named '{module}'\n"
    around = replace(AROUND, own={"tabulate", "model"}, named_in=lambda _: where)
    assert cause_of(text, 1, around).cause == cause


@pytest.mark.parametrize(
    ("files", "module", "says"),
    [
        ({"model": "src/model/__init__.py"}, "model.net", "your package model has no net: there is no src/model/net.py"),
        ({"model": "model.py"}, "model.net", "there is no model/net.py"),
        ({}, "model.a.net", "there is no model/a/net.py"),
        ({"model.net": "model/net.py"}, "model.net", "Python finds a model without net, which yours has: model/net.py"),
    ],
)  # fmt: skip
def test_a_file_that_an_own_package_lacks_is_named(files, module, says):
    text = TRACEBACK + f"ModuleNotFoundError: No module named '{module}'\n"
    found = cause_of(text, 1, replace(AROUND, file_of=lambda name: files.get(name, "")))
    assert (found.cause, says in found.says) == ("own-module", True)


@pytest.mark.parametrize(("line", "module"), [(".core", "align.core"), (".align.core", "align.align")])
def test_an_own_module_that_is_not_compiled_is_named_with_its_source(line, module):
    text = f"{TRACEBACK}    from {line} import path\nModuleNotFoundError: No module named '{module}'\n"
    sources = {"core.pyx": "align/core.pyx"}
    found = cause_of(text, 1, replace(AROUND, own={"align"}, lies_at=lambda path: sources.get(path, "")))
    assert found.says.endswith(": align/core.pyx is not compiled")


@pytest.mark.parametrize(
    ("error", "has"),
    [
        ("[Errno 2] No such file or directory: '../data/x.csv'", True),
        ("../data/x.csv not found.", True),
        ("[Errno 2] No such file or directory: 'x.csv'", False),
        ("[Errno 2] No such file or directory: '../data/y.csv'", False),
    ],
)
def test_a_missing_file_that_the_repository_has_once_is_named_where_it_lies(tmp_path, error, has):
    for each in ("data/x.csv", "old/x.csv"):
        (tmp_path / each).parent.mkdir()
        (tmp_path / each).write_text("")
    found = cause_of(TRACEBACK + f"FileNotFoundError: {error}\n", 1, around(tmp_path, "python train.py"))
    assert (found.cause, "the repository has data/x.csv" in found.remedy) == ("data-missing", has)
    assert ("put it into" in found.remedy) != has


def test_a_submodule_that_an_installation_writes_is_made_by_one():
    text = TRACEBACK + "ModuleNotFoundError: No module named 'model.version'\n"
    found = cause_of(text, 1, replace(AROUND, written_by=lambda module: f"setup.py of {module}"))
    assert found.says.startswith(
        "your module model.version is not there: setup.py of model.version writes it"
    )
    assert "pip install -e ." in found.remedy


@pytest.mark.parametrize(
    ("path", "folder"),
    [("app/generated/x.py", "/app"), ("srv/my code/generated.py", "/srv/my code"), ("generated.py", "/"), ("usr/src/a/generated/x.py", "/usr/src/a")],
)  # fmt: skip
def test_a_module_that_the_image_has_in_another_folder_is_found_there(tmp_path, path, folder):
    for each in (path, "etc/generated.py", "app/other/generated2.py"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text("")
    listed, _, rest = places_of("generated").partition(";")
    listed = listed.replace("''", str(tmp_path)).replace(" /", f" {tmp_path}/")
    script = f"{listed};{rest}".replace(" case $each", f" case ${{each#{tmp_path}}}")
    place = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout.strip()
    place = place.removeprefix(str(tmp_path)) or "/"
    assert place == folder
    missing = cause_of("ModuleNotFoundError: No module named 'generated'\n", 1, AROUND)
    found = in_image(missing, "generated", place)
    assert (found.cause, found.subject, found.remedy.split()[:2]) == (
        "own-module",
        "",
        ["put", folder.split()[0]],
    )
    assert found.says == f"Python does not find the module generated, which the image has in {folder}"


def test_a_program_outside_of_the_image_is_told_nothing_of_the_dockerfile():
    text = TRACEBACK + "ModuleNotFoundError: No module named 'sklearn.svm'\n"
    found = cause_of(text, 1, replace(AROUND, installs_from=None))
    assert (found.cause, found.subject) == ("module-missing", "")  # no subject: --fix changes no requirements
    assert found.remedy == "install it there: pip install scikit-learn"


@pytest.mark.parametrize("reason", ["Permission denied", "Exec format error"])
def test_a_script_that_cannot_be_executed_gets_its_interpreter(reason):
    found = cause_of(f"dkdbg: cannot execute ./a b.py: {reason}\n", 126, AROUND)
    assert (found.cause, found.says) == ("not-executable", f"cannot execute ./a b.py: {reason}")
    assert found.remedy.startswith("begin the command with its interpreter: python './a b.py'; or chmod +x")


@pytest.mark.parametrize(
    ("text", "code", "says", "remedy"),
    [
        ("ModuleNotFoundError: No module named 'google.protobuf'", 1, "google", "add protobuf to"),
        ("/usr/bin/python3: No module named model.__main__; 'model' is a package and cannot be directly executed", 1, "model has no __main__.py", "'python -m model.MODULE'"),
        ("ModuleNotFoundError: No module named 'google'", 1, "google is not installed", "install the distribution that has it"),
        ("ModuleNotFoundError: No module named 'pkg_resources'", 1, "Python 3.11 is the last", "add setuptools<81 to requirements.txt"),
        ('  File "subprocess.py", line 9, in _execute_child\n    raise x\nFileNotFoundError: [Errno 2] No such file or directory: \'ffmpeg\'', 1, "starts ffmpeg", "apt-get install ffmpeg"),
        ('  File "subprocess.py", line 9, in _execute_child\n    raise x\nFileNotFoundError: [Errno 2] No such file or directory: \'ffmpeg\'', 1, "starts ffmpeg", 'apt = ["ffmpeg"] in dkdbg.toml, then dkdbg init'),
        ("    path = sys.argv[1]\n           ~~~~~~~~^^^\nIndexError: list index out of range", 1, "demands sys.argv[1]", "'python train.py VALUE'"),
        ("ValidationError: 2 validation errors for Settings\ndatabase_url\n  Field required [type=missing]", 1, "DATABASE_URL", "environment: [DATABASE_URL]"),
        ("python3: can't open file '/app/trian.py': [Errno 2] No such file or directory\n", 2,
         "there is no /app/trian.py where the program runs", "correct the command (after --"),
        ("ImportError: libGL.so.1: cannot open shared object file: No such file", 1,
         "the system library libGL.so.1 is not in the image", "apt-get install -y --no-install-recommends libgl1"),
        ("train.py: error: the following arguments are required: --data, --out\n", 2,
         "the program demands --data, --out", "dkdbg init --command 'python train.py --data VALUE --out VALUE'"),
        ("Field required\n --lr\n", 1, "the program demands --lr", "--lr VALUE"),
        ("Field required --lr\n", 1, "the program demands --lr", "--lr VALUE"),
        (TRACEBACK + "my.pkg.ShapeError: (3, 4)\n", 1,
         "the program ended with exit code 1: my.pkg.ShapeError: (3, 4)", ""),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_as_its_user_has_to_write_it(text, code, says, remedy):
    found = cause_of(text, code, AROUND)
    assert says in found.says
    assert remedy in found.remedy


def test_only_the_agents_own_lines_are_the_agents():
    for text in (
        "loss without the debugger: see dkdbg: cannot start: x\n",
        "dkdbg: listening on 127.0.0.1:5678\nwe cannot start the epoch\n",
        "print: no debugpy for Python 3.6 in docs\n",
        "dkdbg: cannot start ./entry.sh: the interpreter in its first line does not exist\n",
    ):
        assert of_agent(text) is None, text
    found = of_agent("dkdbg: cannot start: port 5678 is taken\n")
    assert found.says == "the agent cannot start: port 5678 is taken"


def test_a_name_from_the_output_stays_one_word_of_the_command_to_type():
    text = "train.py: error: the following arguments are required: --data'; rm -rf ~; '\n"
    assert """'"'"'; rm -rf ~;""" in cause_of(text, 2, AROUND).remedy
    assert "$(" not in cause_of("$(rm)libx.so.1: cannot open shared object file", 1, AROUND).remedy


@pytest.mark.parametrize(
    ("unit", "end", "count"),
    [*((unit, "", 1000) for unit in ("x", "lib", "usage: ", "Missing option ", "\r", "dkdbg: ")),
     *((unit, "\n", 200) for unit in ("Field required", "lib.so."))],
)  # fmt: skip
def test_a_long_line_and_many_lines_take_no_long_time(unit, end, count):
    began = time.monotonic()
    cause_of((unit * (1000 // len(unit)) + end) * count, 1, AROUND)
    assert time.monotonic() - began < 60


def test_what_the_program_prints_forges_no_line_of_the_finding():
    found = cause_of("KeyError: 'X'\rValueError: a\x1b[2J\n", 1, AROUND)
    assert all(each.isprintable() for each in found.lines())


@pytest.mark.parametrize(("port", "is_ours"), [(5678, True), (8000, False)])
def test_a_program_that_listens_on_the_debug_port_is_told_how_to_move_that(port, is_ours):
    text = f"dkdbg: a debugger can attach on 0.0.0.0:5678 at any time\nconnection to ('0.0.0.0', {port}) failed: [Errno 98] Address already in use\n"
    remedy = cause_of(text, 1, AROUND).remedy
    assert ("port = 5679 under [debug] in dkdbg.toml" in remedy) is is_ours


@pytest.mark.parametrize(
    ("entrypoint", "runs"),
    [
        (("/entry.sh",), True), (("conda", "run", "-n", "ml"), True), (("tini", "--", "/start.sh"), True),
        (("/bin/sh", "-c", "exec python serve.py"), False), (("/bin/bash", "-lc"), False),
        (("python3", "serve.py"), False), ((), False),
    ],
)  # fmt: skip
def test_only_an_entrypoint_that_may_start_another_command_is_run(entrypoint, runs):
    assert bool(program_end.environments(entrypoint)) == runs


@pytest.mark.parametrize(
    ("without", "through", "is_left_out"),
    [
        ("PATH=/bin", "PATH=/opt/env/bin:/bin", True),
        ("PATH=/bin", "hello\nPATH=/bin\nNVIDIA=1", False),
        ("PATH=/bin", "", False),
    ],
)
def test_an_entrypoint_is_the_cause_only_if_it_sets_where_programs_are_looked_for(
    without, through, is_left_out
):
    finding = Finding(link="program", cause="command-missing", says="no python", remedy="install it")
    mark = program_end.environments(("x",)).split()[2].rstrip(";")
    found = program_end.without_entrypoint(finding, ("/e.sh",), f"{without}\n{mark}\n{through}\n", AROUND)
    assert (found.cause == "entrypoint-left-out") == is_left_out
