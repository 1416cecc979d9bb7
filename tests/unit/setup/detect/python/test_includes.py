"""Files that a dependency file pulls in must be in the build context too."""

import pytest

from dkdbg.setup.detect.files import Tree
from dkdbg.setup.detect.python.requirements import included_files, installs_itself, local_packages


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


def test_packages_of_the_repository_that_are_installed_from_its_folders(tmp_path):
    source = 'name = "a"\nversion = "1"\nsource = {{ {} = "{}" }}\n'
    sources = (("virtual", "."), ("editable", "packages/core"), ("directory", "../up"), ("editable", "gone"))
    found = tree(
        tmp_path,
        uv_lock="".join(source.format(*each) for each in sources),
        poetry_lock='[package.source]\ntype = "directory"\nurl = "libs/x"\n',
        a_txt="-e .\n-e ./packages/core[dev]\n./libs/x\n",
        packages__core__pyproject_toml="",
        libs__x__pyproject_toml="",
    )
    assert local_packages(found, ["uv.lock"]) == ("packages/core",)
    assert local_packages(found, ["poetry.lock"]) == ("libs/x",)
    assert local_packages(found, ["a.txt"]) == ("packages/core", "libs/x")
