"""What dkdbg uses of debugpy's insides is listed, and is there in every version that it says it works with."""

# ruff: noqa: PLW1510

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dkdbg.agent.inprocess import bundle
from dkdbg.agent.inprocess.pydevd_patches import privates
from dkdbg.agent.supervisor import hook_folder
from tests.agent.dap_probe import Editor
from tests.needs import give_up
from tests.pythons import cache

AGENT = Path(bundle.__file__).parents[1]
#: As pip writes them; the last is whatever is the newest today.
VERSIONS = [f"==1.8.{patch}" for patch in range(privates.OLDEST[2], privates.NEWEST_TRIED[2] + 1)]
NEWEST = f">={'.'.join(map(str, privates.NEWEST_TRIED))},<{'.'.join(map(str, privates.BELOW))}"

CHECK_CODE = """import json, runpy, sys
sys.path.insert(0, sys.argv[1])
import debugpy
from debugpy.server import api
privates = runpy.run_path(sys.argv[2])
print(json.dumps([debugpy.__version__, *[privates["missing"](privates[names]) for names in sys.argv[3:]]]))
"""


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """A folder with the debugpy of a requirement such as `==1.8.16`, from the package index; kept for the next run."""

    def get(requirement):
        fresh = tmp_path_factory.mktemp("debugpy")
        folder = fresh if requirement == NEWEST else cache() / f"debugpy-{requirement.strip('=')}"
        if not (folder / "debugpy").is_dir():
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
            command += [
                "--platform",
                "any",
                "--python-version",
                "3.10",
                "debugpy" + requirement,
                "-d",
                str(fresh),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode != 0:
                give_up(f"no debugpy{requirement} from the package index: {done.stderr.strip()[-200:]}")
            with zipfile.ZipFile(next(fresh.glob("*.whl"))) as wheel:
                wheel.extractall(fresh)
            if folder != fresh:
                folder.parent.mkdir(parents=True, exist_ok=True)
                whole = shutil.copytree(fresh, folder.with_name(f"{folder.name}.{os.getpid()}"))
                try:  # in one step: others look whether it is there
                    whole.rename(folder)
                except OSError:  # another run was faster
                    shutil.rmtree(whole)
        return folder

    return get


def _look(folder: Path) -> list:
    """The version in a folder, and what is missing in it for the program and for the adapter."""
    command = [sys.executable, "-c", CHECK_CODE, str(folder), privates.__file__, "PROGRAM", "ADAPTER"]
    environment = dict(os.environ, PYDEVD_DISABLE_FILE_VALIDATION="1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout or json.dumps(done.stderr))


@pytest.mark.parametrize("requirement", [*VERSIONS, NEWEST])
def test_every_released_version_has_every_name(released, requirement):
    version, *missing = _look(released(requirement))
    assert missing == [[], []], version
    assert privates.fits(bundle.parse_version(version))


def test_what_pip_installs_beside_dkdbg_is_what_fits():
    oldest, below = (".".join(map(str, each)) for each in (privates.OLDEST, privates.BELOW))
    assert f'"debugpy>={oldest},<{below}"' in (Path(__file__).parents[2] / "pyproject.toml").read_text()


def test_the_debugpy_that_is_installed_here_fits():
    directory, version = bundle.installed_debugpy() or ("", "")
    assert privates.fits(bundle.parse_version(version))
    assert _look(Path(directory).parent)[1:] == [[], []]


@pytest.mark.parametrize(
    ("names", "is_adapter"), [(privates.PROGRAM, False), (privates.ADAPTER, True)], ids=["program", "adapter"]
)
def test_what_is_imported_is_listed_and_what_is_listed_is_used(names, is_adapter):
    sources = (AGENT / "inprocess").rglob("*.py")
    texts = {path.stem: path.read_text() for path in sources if (path.name == "adapter.py") == is_adapter}
    rows = [(module, name) for module, listed in names.items() for name in listed]
    listed = {(module, name.partition(":")[0].split(".")[0]) for module, name in rows}
    modules = {module for module, _ in listed}
    for stem, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and not node.level:
                module = node.module or ""
                if module.startswith(("debugpy", "pydevd_tracing", "_pydev_bundle", "_pydevd_bundle")):
                    for each in node.names:
                        whole = f"{module}.{each.name}"
                        assert (module, each.name) in listed or whole in modules, f"{stem}.py imports {whole}"
    used = "".join(text for stem, text in texts.items() if stem != "privates")
    for module, name in rows:
        assert name.replace(":", ".").rpartition(".")[2] in used, f"nothing uses {module}.{name}"


def test_a_debugpy_without_a_name_is_not_touched(released, tmp_path):
    folder = shutil.copytree(released(VERSIONS[-1]) / "debugpy", tmp_path / "debugpy")
    api = folder / "_vendored/pydevd/_pydevd_bundle/pydevd_api.py"
    api.write_text(api.read_text().replace("def request_disconnect(", "def request_farewell("))
    assert _look(tmp_path)[1:] == [["_pydevd_bundle.pydevd_api.PyDevdAPI.request_disconnect"], []]


def test_a_program_with_a_strange_debugpy_runs_and_the_user_is_told(program, tmp_path):
    (tmp_path / "debugpy").mkdir()
    (tmp_path / "debugpy" / "__init__.py").write_text("__version__ = '2.0.0'\n")
    running = program(
        "import os, time\nimport debugpy\nprint('up', flush=True)\n"
        "while not os.path.exists('stop'):\n    time.sleep(0.02)\nprint('end')\n"
    )
    assert running.process.stdout.readline() == b"up\n"
    with Editor(running.port, {running.script: [5]}) as editor:
        said = "cannot be debugged: not joined: the program has imported debugpy 2.0.0; dkdbg works with "
        line = running.process.stderr.readline().decode()
        while line and said not in line:
            line = running.process.stderr.readline().decode()
        assert privates.span() in line
        (tmp_path / "stop").touch()
        code, out, _ = running.finish()
    assert (code, out, editor.stops) == (0, "end\n", [])


def test_a_debugpy_of_a_version_to_come_is_not_chosen():
    assert not bundle.supports((1, 9, 0), (3, 13))
    assert bundle.supports(privates.NEWEST_TRIED, (3, 13))
    assert not bundle.supports((1, 8, 15), (3, 13))


def test_the_hooks_folder_gets_every_file_of_the_program(tmp_path):
    hook = hook_folder.install(str(tmp_path))
    package = Path(hook).parent
    names = [
        str(path.relative_to(package).with_suffix("")).replace("/", ".") for path in package.rglob("*.py")
    ]
    modules = [name for name in names if not name.startswith("hook.") and not name.endswith("__init__")]
    modules.remove("entered")  # which a running program executes by its path
    code = "import sys\nfor name in sys.argv[1:]: sys.modules['sitecustomize']._import(name)\nprint('all')"
    environment = dict(os.environ, PYTHONPATH=hook)
    done = subprocess.run(
        [sys.executable, "-c", code, *modules],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("all\n", "")
