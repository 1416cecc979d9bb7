"""A breakpoint set in the local file must be hit in the container, with the local path in the stack.

Without a Dockerfile and a compose file: test_compose_profile.py. Several features of a project that do not touch each
other are in one test.
"""

import subprocess
from textwrap import dedent

import pytest

from tests.engine.projects import LOOP, command, dkdbg, marked_line, must, repo, running, stop_in, unique

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("port-5678")]


def check(root, base, file, *, fails_inside=()):
    """Stop in a file; Python lines that have to fail in the service are run before."""
    must(dkdbg(root, "init", "--yes"))
    with running(root, base):
        for code in fails_inside:
            words = ["docker", "compose", "--profile", "debug", "exec", "-T", "dev-debug", "python3", "-c"]
            assert command([*words, code], root, check=False).returncode == 1, code
        stopped = stop_in(root, file)
    assert stopped.path == str(root / file)
    assert stopped.line == marked_line(root / file)
    assert stopped.function == "step"
    return stopped


def test_with_an_own_dockerfile_that_copies_everything_into_the_top_folder(tmp_path, base_image):
    dockerfile = f"""\
        FROM {base_image}
        COPY . .
        CMD ["python3", "train.py"]
        """
    files = {
        "train.py": "from models.net import rate\n" + dedent(LOOP), "models/net.py": "rate = 1\n",
        "Dockerfile": dockerfile, "compose.yaml": "services: {job: {build: .}}\n",
    }  # fmt: skip
    check(repo(tmp_path / unique("top"), files), base_image, "train.py")


def test_with_an_own_dockerfile_that_copies_one_file_and_a_shell_entrypoint(tmp_path, base_image):
    """In `/` Python calls it `//train.py`; and the whole repository, with the same file, lies in /workspace beside it."""
    dockerfile = f"""\
        FROM {base_image}
        COPY train.py /
        ENTRYPOINT ["sh", "-c", "export MODE=fast; echo begin; python3 train.py \\"$@\\"", "--"]
        CMD ["--epochs", "3"]
        """
    files = {"train.py": LOOP, "Dockerfile": dockerfile}
    check(repo(tmp_path / unique("single"), files), base_image, "train.py")


def test_with_an_own_dockerfile_that_copies_a_file_elsewhere_and_starts_nothing(tmp_path, base_image):
    files = {
        "train.py": LOOP, "Dockerfile": f"FROM {base_image}\nCOPY train.py /opt/app/\n",
        "compose.yaml": "services: {job: {build: .}}\n",
    }  # fmt: skip
    check(repo(tmp_path / unique("apart"), files), base_image, "train.py")


def test_with_a_base_image_that_sets_the_folder_of_a_relative_copy(tmp_path, base_image):
    base = unique("dkdbg-test/mlbox")
    command(["docker", "build", "-q", "-t", base, "-"], text=f"FROM {base_image}\nWORKDIR /opt/ml/code\n")
    files = {
        "train.py": LOOP, "Dockerfile": f'FROM {base}\nWORKDIR sub\nCOPY . .\nCMD ["python3", "train.py"]\n',
        "compose.yaml": "services: {job: {build: .}}\n",
    }  # fmt: skip
    try:
        check(repo(tmp_path / unique("inherits"), files), base_image, "train.py")
    finally:
        command(["docker", "rmi", "-f", base], check=False)


def test_with_a_service_that_shows_the_gpu_a_documented_command_and_no_pip_or_network(tmp_path, base_image):
    """The image begins in a folder that has nothing of the repository, and its name server is where none listens."""
    compose = """\
        services:
          dev:
            build: {context: docker}
            command: nvidia-smi dmon
            dns: [127.0.0.1]
        """
    python = (
        "/usr/lib/python3/dist-packages/pip* /usr/bin/pip* /usr/lib/python3*/ensurepip /usr/lib/python3*/venv"
    )
    files = {
        "train.py": LOOP, "README.md": "    python3 train.py\n", "docker-compose.yml": compose,
        "docker/Dockerfile": f"FROM {base_image}\nRUN rm -rf {python}\nWORKDIR /home\n",
    }  # fmt: skip
    lacks = ("import pip", "import socket; socket.getaddrinfo('example.com', 80)")
    check(repo(tmp_path / unique("monitor"), files), base_image, "train.py", fails_inside=lacks)


@pytest.mark.core
def test_with_an_own_compose_of_two_services_and_a_module_of_a_package(tmp_path, base_image):
    """What the service depends on has a profile, which nobody has chosen."""
    compose = """\
        services:
          trainer:
            build: .
            container_name: NAME
            command: python3 -u -m pkg
            depends_on: [store]
            restart: always
          store:
            image: BASE
            command: sleep 600
            init: true
            profiles: [local]
        """.replace("BASE", base_image).replace("NAME", unique("fixed-name"))
    files = {
        "pkg/__init__.py": "", "pkg/__main__.py": LOOP, "docker-compose.yml": compose,
        "Dockerfile": f"FROM {base_image}\nWORKDIR /srv/code\nCOPY . .\n",
    }  # fmt: skip
    root = repo(tmp_path / unique("two"), files)
    before = (root / "docker-compose.yml").read_bytes()
    check(root, base_image, "pkg/__main__.py")
    assert (root / "docker-compose.yml").read_bytes() == before


def test_with_a_service_that_pulls_a_release_of_the_project(tmp_path, base_image):
    """No registry has the release, so what runs are the sources, without its GPU; and its name stays free for it."""
    name = unique("released")
    release = f"127.0.0.1:1/acme/{name}:1"
    compose = f"""\
        services:
          web:
            image: {release}
            pull_policy: always
            depends_on: [store]
            environment: {{STORE: store}}
            gpus: all
          store:
            image: {base_image}
            command: sleep 600
            init: true
        """
    files = {
        "app/train.py": "import os\n" + dedent(LOOP) + "\nassert os.environ['STORE']\n", "compose.yaml": compose,
        "app/Dockerfile": f"FROM {base_image}\nWORKDIR /srv/code\nCOPY . .\nCMD python3 train.py\n",
    }  # fmt: skip
    check(repo(tmp_path / name, files), base_image, "app/train.py")
    known = subprocess.run(["docker", "image", "inspect", release], capture_output=True, check=False)
    assert known.returncode != 0


READS_BESIDE = """\
    import os
    import pathlib
    import sys
    import time

    rows = pathlib.Path("../data/rows.txt").read_text().split()


    def step(n):
        columns = os.get_terminal_size(sys.stdin.fileno()).columns
        row = rows[n % len(rows)]
        return row  # breakpoint


    for n in range(100000):
        step(n)
        time.sleep(0.01)
    """


def test_in_a_subfolder_whose_program_reads_what_lies_beside_it_and_asks_for_a_terminal(tmp_path, base_image):
    """The whole repository is there, the program starts in its own folder, and os.get_terminal_size() finds a terminal."""
    lesson = unique("lesson")
    files = {"data/rows.txt": "only\n", "other/train.py": "import nothing\n"}
    files[f"{lesson}/train.py"] = READS_BESIDE
    root = repo(tmp_path / unique("courses"), files) / lesson
    values = check(root, base_image, "train.py").values
    assert values["row"] == "'only'"
    assert int(values["columns"]) >= 0


def test_with_an_image_that_has_installed_a_copy_of_the_package(tmp_path, base_image):
    """Python imports what lies in the folder of the sources, and not the copy in site-packages."""
    dockerfile = f"""\
        FROM {base_image}
        COPY . /build
        RUN pip install --break-system-packages --no-build-isolation --no-index /build
        WORKDIR /tmp
        CMD ["acme-train"]
        """
    pyproject = """\
        [build-system]
        requires = ["setuptools"]
        build-backend = "setuptools.build_meta"

        [project]
        name = "acme"
        version = "1"

        [project.scripts]
        acme-train = "acme.train:main"

        [tool.setuptools]
        packages = ["acme"]
        """
    loop = dedent(LOOP).replace('if __name__ == "__main__":', "def main():")
    root = repo(
        tmp_path / unique("installed"),
        {"acme/__init__.py": "", "acme/train.py": loop, "pyproject.toml": pyproject, "Dockerfile": dockerfile},
    )  # fmt: skip
    check(root, base_image, "acme/train.py")
