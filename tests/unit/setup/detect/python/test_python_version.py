"""The Python minor version, from the strongest statement to the weakest."""

import pytest

CI = "jobs:\n  a:\n    steps:\n      - uses: actions/setup-python@v5\n        with:\n          python-version: {0}\n"


def version(project):
    return project.facts().python.version


def test_nothing_said_or_a_statement_outside_the_required_range_is_the_default(project):
    assert version(project) == "3.11"
    project.write("pyproject.toml", '[project]\nname = "p"\nrequires-python = ">=3.10"\n')
    project.readme("conda create -n x python=3.8")
    assert version(project) == "3.11"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("Dockerfile", "FROM python:3.9-slim\nCMD python a.py\n", "3.9"),
        (".python-version", "3.10\n", "3.10"),
        (".tool-versions", "nodejs 20\npython 3.12.1\n", "3.12"),
        ("runtime.txt", "python-3.9.7\n", "3.9"),
        ("environment.yml", "dependencies:\n  - python=3.8\n", "3.8"),
        ("environment.yml", "dependencies:\n  - python>=3.8\n", "3.11"),
        ("pyproject.toml", '[project]\nname = "p"\nrequires-python = ">=3.10,<3.11"\n', "3.10"),
        ("pyproject.toml", '[project]\nname = "p"\nrequires-python = ">=3.12"\n', "3.12"),
        ("pyproject.toml", '[project]\nname = "p"\nrequires-python = "==3.9.*"\n', "3.9"),
        ("Pipfile", '[requires]\npython_version = "3.9"\n', "3.9"),
        ("setup.py", "setup(name='p', python_requires='>=3.7,<3.9')\n", "3.8"),
        (".github/workflows/ci.yml", CI.format('"3.10"'), "3.10"),
        (".github/workflows/ci.yml", CI.format('["3.8", "3.9", "3.10"]'), "3.10"),
        ("README.md", "We recommend Python 3.10.\n", "3.10"),
        ("README.md", "Needs Python >= 3.8 and pip.\n", "3.11"),
        ("README.md", "Python 3.8+ is needed.\n", "3.11"),
        ("README.md", "    conda create -n x python=3.9 -y\n", "3.9"),
        ("requirements.txt", "torch==1.9.0\n", "3.9"),
        ("requirements.txt", "torch==0.4.1\n", "3.7"),
        ("requirements.txt", "torch<1.3\n", "3.7"),
        ("README.md", "    conda install pytorch=1.6.0 cudatoolkit=10.1 -c pytorch\n", "3.8"),
        ("README.md", "    pip install torch==1.12.1 --index-url https://x.example/whl/cu116\n", "3.10"),
        ("environment.yml", "dependencies: [python >= 3.8, pytorch >= 1.13, pytorch-cuda=11.7]\n", "3.11"),
    ],
)
def test_one_statement(project, path, text, expected):
    assert version(project.write(path, text)) == expected


def test_the_image_beats_the_readme_whose_side_folders_say_nothing_a_pin_file_beats_a_distribution(project):
    project.write("Dockerfile", "FROM python:3.9\n").readme("conda create -n x python=3.10")
    assert version(project) == "3.9"
    project.empty().write("Dockerfile", "FROM nvidia/cuda:12.1.0-devel-ubuntu20.04\n")
    project.write(".python-version", "3.10\n")
    assert version(project) == "3.10"
    project.empty().program("train.py").write("extras/README.md", "conda create -n p python=3.8\n")
    assert version(project) == "3.11"


def test_the_dev_container_beside_the_program_and_a_document_on_getting_started_speak(project):
    for name, python in (("a", "3.9"), ("b", "3.12")):
        project.write(f"src/{name}/.devcontainer/Dockerfile", f"FROM python:{python}\n")
        project.write(
            f"src/{name}/.devcontainer/devcontainer.json", '{"build": {"dockerfile": "Dockerfile"},}'
        )
    assert version(project.program("src/b/train.py")) == "3.12"
    project.empty().write("get_started.md", "```bash\nconda create -n p python=3.8 -y\n```\n")
    assert version(project) == "3.8"


def test_a_python_that_no_debugger_supports_is_a_candidate_only_where_something_states_it(project):
    project.write("requirements.txt", "torch==1.7.1\n")
    assert {each.value for each in project.facts().rivals if each.topic == "python"} == {"3.8"}
    project.readme("conda create -n x python=3.7")
    assert "3.7" in {project.facts().python.version, *(each.value for each in project.facts().rivals)}
