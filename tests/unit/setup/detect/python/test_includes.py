"""Files that a dependency file pulls in must be in the build context too."""

import pytest

from dkdbg.setup.detect.files import Tree
from dkdbg.setup.detect.python.requirements import included_files, installs_itself
from dkdbg.setup.plan.image import plan_installs


def tree(root, **files):
    """A tree of files; `__` in a name stands for a slash, `_` for the dot before txt, in, yml."""
    for name, text in files.items():
        stem, _, kind = name.replace("__", "/").rpartition("_")
        path = root / f"{stem}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(root)


def test_what_requirements_and_conda_environments_name_is_found_and_what_does_not_exist_left_to_pip(tmp_path):
    lines = "-r base.txt\n--constraint=pins.txt\n"
    found = tree(tmp_path, req__dev_txt=lines, req__base_txt="numpy\n", req__pins_txt="")
    assert included_files(found, ["req/dev.txt"]) == ("req/base.txt", "req/pins.txt")
    environment = "dependencies:\n  - pip:\n      - -r requirements.txt\n      - '-c pins.txt'\n"
    found = tree(tmp_path, environment_yml=environment, requirements_txt="", pins_txt="")
    assert included_files(found, ["environment.yml"]) == ("requirements.txt", "pins.txt")
    assert included_files(tree(tmp_path, a_txt="-r nowhere.txt\n"), ["a.txt"]) == ()
    found = tree(tmp_path, a_txt="-r b.txt\n", b_txt="-r a.txt\n")
    assert included_files(found, ["a.txt"]) == ("b.txt", "a.txt")


@pytest.mark.parametrize("line", ["-e .", ".", "-e .[dev]", "--editable=.", "./", "-e ./pkg  # ours", "-e."])
def test_a_line_that_installs_the_repository(tmp_path, line):
    assert installs_itself(tree(tmp_path, a_txt=f"numpy\n{line}\n"), ["a.txt"])
    assert installs_itself(tree(tmp_path, e_yml=f"dependencies:\n- pip:\n  - {line}\n"), ["e.yml"])


@pytest.mark.parametrize("line", ["-e git+https://example.com/x#egg=x", "numpy", "# -e .", "", "..."])
def test_a_line_that_does_not(tmp_path, line):
    assert not installs_itself(tree(tmp_path, a_txt=f"{line}\n"), ["a.txt"])
    assert not installs_itself(tree(tmp_path, e_yml=f"dependencies:\n  - pip:\n    - {line}\n"), ["e.yml"])


ALONE = '[project]\nname = "core"\ndependencies = ["numpy<3", "tools"]\n'
CORE = ALONE + "[tool.uv.sources]\ntools = { workspace = true }\n"
PROJECT = '[project]\nname = "p"\ndependencies = ["rich", "core"]\n'
LOCKED = 'name = "a"\nversion = "1"\nsource = {{ {} = "{}" }}\n'


@pytest.mark.parametrize(("files", "declared"), [
    ({"pyproject.toml": PROJECT + '[tool.uv.sources]\ncore = { workspace = true }\n[tool.uv.workspace]\nmembers = ["libs/*"]\n'}, ["rich"]),
    ({"pyproject.toml": PROJECT + '[tool.uv.sources]\ncore = { workspace = true }\ntools = { path = "libs/tools" }\n[tool.uv.workspace]\nmembers = ["libs/*"]\n',
      "libs/core/pyproject.toml": ALONE}, ["rich"]),
    ({"pyproject.toml": PROJECT + '[tool.uv.sources]\ncore = [{ path = "libs/core", editable = true }]\n'
      'rich = [{ path = "libs/no_package", marker = "sys_platform == \'darwin\'" }]\n'}, ["rich"]),
    ({"pyproject.toml": PROJECT + '[tool.uv.sources]\ncore = { path = "libs/core" }\n',
      "uv.lock": "".join(LOCKED.format(*each) for each in (("virtual", "."), ("editable", "libs/core"), ("directory", "../up"), ("editable", "gone")))}, ["rich"]),
    ({"pyproject.toml": '[tool.poetry]\nname = "p"\n[tool.poetry.dependencies]\nrich = "*"\ncore = { path = "./libs/core", develop = true }\n'}, ["rich"]),
    ({"pixi.toml": '[workspace]\nname = "p"\n[pypi-dependencies]\nrich = "*"\np = { path = ".", editable = true }\ncore = { path = "libs/core" }\n'}, ["rich"]),
    ({"requirements.txt": "-e .\nrich\n-e ./libs/core[dev]\n"}, ["rich"]),
    ({"requirements.txt": "rich\n-e libs/core\n-e libs/no_package\n./wheels/other\n"}, ["rich"]),
    ({"requirements.txt": "-r more.txt\n", "more.txt": "rich\nlibs/core\n"}, ["rich"]),
    ({"environment.yml": "channels: [x]\ndependencies:\n- rich\n- pip:\n  - ./libs/core\n"}, ["rich"]),
])  # fmt: skip
def test_a_package_of_the_repository_is_installed_from_its_folder_with_its_dependencies(
    project, files, declared
):
    """No index is asked for its name, under which anybody may have uploaded another one."""
    tools = '[project]\nname = "tools"\n'
    for path, text in {"libs/core/pyproject.toml": CORE, "libs/tools/pyproject.toml": tools, **files}.items():
        project.write(path, text)
    facts = project.program("train.py").facts()
    assert facts.local_packages == ("libs/core", "libs/tools")
    assert [*facts.declared] == [*declared, "numpy<3"]
    assert not any("core" in each.run for each in plan_installs(facts) if "environment.yml" not in each.run)


UV_INDEX = '[[tool.uv.index]]\nname = "priv"\nurl = "https://priv/simple"\n'
FROM_GIT = "core @ git+https://h/core@v1#subdirectory=py"
FROM_PRIV = "pip install --no-deps --index-url https://priv/simple core"
FURTHER = "pip install --extra-index-url https://priv/simple rich core"


@pytest.mark.parametrize(("path", "text", "commands"), [
    ("pyproject.toml", PROJECT + '[tool.uv.sources]\ncore = { git = "https://me:s@cret@h/core", tag = "v1", subdirectory = "py" }\n', [f"pip install rich '{FROM_GIT}'"]),
    ("pyproject.toml", PROJECT + '[tool.uv.sources]\ncore = [{ git = "https://h/x", marker = "sys_platform != \'linux\'" }, { index = "priv", marker = "sys_platform == \'linux\'" }]\n' + UV_INDEX + "explicit = true\n",
     [FROM_PRIV, "pip install rich core"]),
    ("pyproject.toml", PROJECT + '[tool.uv.sources]\ncore = [{ index = "priv", extra = "x" }]\n' + UV_INDEX, [FURTHER]),
    ("pyproject.toml", PROJECT + UV_INDEX.replace("priv/", "me:s@cret@priv/") + "default = true\n", ["pip install --index-url https://priv/simple rich core"]),
    ("pyproject.toml", PROJECT + '[tool.uv]\nextra-index-url = ["https://priv/simple", "https://pypi.org/simple"]\n', [FURTHER]),
    ("pyproject.toml", PROJECT + '[build-system]\nbuild-backend = "pdm.backend"\n[[tool.pdm.source]]\nname = "priv"\nurl = "https://priv/simple"\n', [FURTHER]),
    ("pixi.toml", '[workspace]\nname = "p"\n[pypi-dependencies]\nrich = "*"\ncore = { version = "*", index = "https://priv/simple" }\n', [FROM_PRIV, "pip install rich core"]),
    ("pixi.toml", '[workspace]\nname = "p"\n[pypi-options]\nextra-index-urls = ["https://priv/simple"]\n[pypi-dependencies]\nrich = "*"\ncore = "*"\n', [FURTHER]),
    ("Pipfile", '[[source]]\nname = "pypi"\nurl = "https://pypi.org/simple"\n[[source]]\nname = "priv"\nurl = "https://priv/simple"\n[packages]\nrich = "*"\ncore = { version = "*", index = "priv" }\n', [FROM_PRIV, "pip install rich core"]),
    ("Pipfile", '[packages]\nrich = "*"\ncore = { git = "https://h/core", ref = "v1", subdirectory = "py" }\n', [f"pip install rich '{FROM_GIT}'"]),
    ("Pipfile", '[packages]\nrich = "*"\ncore = { path = "libs/core" }\n', ["pip install rich"]),
    ("requirements.txt", "--extra-index-url=https://priv/simple\nrich\ncore\n-e .\n", [FURTHER]),
])  # fmt: skip
def test_a_requirement_is_asked_of_the_repository_or_index_that_a_dependency_file_names(
    project, path, text, commands
):
    """Where it names one for the package, PyPI is not asked for the name, under which a stranger may have uploaded another."""
    facts = project.write(path, text).program("train.py").facts()
    assert [each.run for each in plan_installs(facts)] == commands


def test_poetry_without_a_lock_names_its_source_where_a_folder_keeps_poetry_from_the_build(project):
    text = (
        '[tool.poetry]\nname = "p"\n[tool.poetry.dependencies]\ntools = { path = "tools" }\n'
        'core = { version = "*", source = "priv" }\nrich = "*"\n[[tool.poetry.source]]\nname = "priv"\n'
        'url = "https://priv/simple"\npriority = "explicit"\n'
    )
    project.write("pyproject.toml", text).write("tools/pyproject.toml", '[project]\nname = "tools"\n')
    commands = [each.run for each in plan_installs(project.program("train.py").facts())]
    assert commands == [FROM_PRIV, "pip install core rich"]
