"""A breakpoint set in the local file must be hit in the container, with the local path in the stack."""

from __future__ import annotations

import subprocess
from textwrap import dedent

import pytest

from tests.engine.projects import LOOP, dkdbg, marked_line, must, repo, running, stop_in, unique

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("port-5678")]


def check(root, base, file, *, init=()):
    must(dkdbg(root, "init", "--yes", *init))
    with running(root, base):
        stopped = stop_in(root, file)
    assert stopped.path == str(root / file)
    assert stopped.line == marked_line(root / file)
    assert stopped.function == "step"
    return stopped


@pytest.mark.core
def test_without_a_dockerfile(tmp_path, base_image):
    root = repo(tmp_path / unique("bare"), {"train.py": LOOP, "requirements.txt": "# nothing\n"})
    assert check(root, base_image, "train.py").values["loss"] == "1.0"


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


def test_with_an_own_dockerfile_that_copies_one_file(tmp_path, base_image):
    """In `/` Python calls it `//train.py`; and the whole repository, with the same file, lies in /workspace beside it."""
    dockerfile = f"""\
        FROM {base_image}
        COPY train.py /
        CMD ["python3", "train.py"]
        """
    check(
        repo(tmp_path / unique("single"), {"train.py": LOOP, "Dockerfile": dockerfile}),
        base_image,
        "train.py",
    )


def test_with_a_service_that_shows_the_gpu_and_a_documented_command(tmp_path, base_image):
    """The image begins in a folder that has nothing of the repository."""
    compose = """\
        services:
          dev:
            build: {context: docker}
            command: nvidia-smi dmon
        """
    files = {
        "train.py": LOOP, "README.md": "    python3 train.py\n", "docker-compose.yml": compose,
        "docker/Dockerfile": f"FROM {base_image}\nWORKDIR /home\n",
    }  # fmt: skip
    check(repo(tmp_path / unique("monitor"), files), base_image, "train.py")


@pytest.mark.core
def test_with_an_own_compose_of_two_services(tmp_path, base_image):
    compose = """\
        services:
          trainer:
            build: .
            container_name: NAME
            command: python3 -u train.py
            depends_on: [store]
            restart: always
          store:
            image: BASE
            command: sleep 600
            init: true
        """.replace("BASE", base_image).replace("NAME", unique("fixed-name"))
    dockerfile = f"FROM {base_image}\nWORKDIR /srv/code\nCOPY . .\n"
    root = repo(
        tmp_path / unique("two"), {"train.py": LOOP, "Dockerfile": dockerfile, "docker-compose.yml": compose}
    )
    before = (root / "docker-compose.yml").read_bytes()
    check(root, base_image, "train.py")
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


def test_with_a_module_of_a_package(tmp_path, base_image):
    files = {"pkg/__init__.py": "", "pkg/__main__.py": LOOP, "requirements.txt": "# nothing\n"}
    check(
        repo(tmp_path / unique("module"), files),
        base_image,
        "pkg/__main__.py",
        init=("--command", "python -m pkg"),
    )


def test_with_a_shell_entrypoint(tmp_path, base_image):
    dockerfile = f"""\
        FROM {base_image}
        WORKDIR /app
        COPY . .
        ENTRYPOINT ["sh", "-c", "export MODE=fast; echo begin; python3 train.py \\"$@\\"", "--"]
        CMD ["--epochs", "3"]
        """
    check(
        repo(tmp_path / unique("shell"), {"train.py": LOOP, "Dockerfile": dockerfile}), base_image, "train.py"
    )


READS_BESIDE = """\
    import pathlib
    import time

    rows = pathlib.Path("../data/rows.txt").read_text().split()


    def step(n):
        row = rows[n % len(rows)]
        return row  # breakpoint


    for n in range(100000):
        step(n)
        time.sleep(0.01)
    """


def test_in_a_subfolder_of_a_repository_that_reads_what_lies_beside_it(tmp_path, base_image):
    """The whole repository is there, and the program starts in its own folder."""
    whole = repo(
        tmp_path / unique("courses"),
        {"data/rows.txt": "only\n", "other/train.py": "import nothing\n", f"{unique('lesson')}/train.py": READS_BESIDE},
    )  # fmt: skip
    (root,) = whole.glob("lesson-*")
    assert check(root, base_image, "train.py").values["row"] == "'only'"


ASKS_FOR_A_TERMINAL = """\
    import os
    import sys
    import time


    def step(n):
        columns = os.get_terminal_size(sys.stdin.fileno()).columns
        return columns  # breakpoint


    for n in range(100000):
        step(n)
        time.sleep(0.01)
    """


def test_with_a_program_that_asks_for_a_terminal(tmp_path, base_image):
    """Without one, os.get_terminal_size() raises OSError."""
    root = repo(
        tmp_path / unique("terminal"), {"train.py": ASKS_FOR_A_TERMINAL, "requirements.txt": "# nothing\n"}
    )
    assert int(check(root, base_image, "train.py").values["columns"]) >= 0


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


@pytest.fixture(scope="module")
def image_without_pip(base_image, tmp_path_factory):
    """The base without pip, venv and ensurepip."""
    name = unique("dkdbg-test/no-pip")
    folder = tmp_path_factory.mktemp("no-pip")
    (folder / "Dockerfile").write_text(
        f"FROM {base_image}\nRUN rm -rf /usr/lib/python3/dist-packages/pip* /usr/bin/pip* /usr/lib/python3*/ensurepip /usr/lib/python3*/venv\n"
    )
    subprocess.run(["docker", "build", "-q", "-t", name, str(folder)], check=True, capture_output=True)
    yield name
    subprocess.run(["docker", "rmi", "-f", name], check=False, capture_output=True)


def test_in_an_image_without_pip_and_without_network(tmp_path, image_without_pip):
    """Nothing can be looked up outside: the name server is the container's own loopback, where none listens."""
    compose = """\
        services:
          job:
            image: IMAGE
            working_dir: /code
            command: ["python3", "train.py"]
            volumes: [".:/code"]
            dns: [127.0.0.1]
        """.replace("IMAGE", image_without_pip)
    root = repo(tmp_path / unique("offline"), {"train.py": LOOP, "compose.yaml": compose})
    must(dkdbg(root, "init", "--yes"))
    with running(root, image_without_pip):
        assert inside(root, "job-debug", "import pip") == 1
        assert inside(root, "job-debug", "import socket; socket.getaddrinfo('example.com', 80)") == 1
        stopped = stop_in(root, "train.py")
    assert stopped.path == str(root / "train.py")


def inside(root, service, code):
    """Exit code of a Python line in the running service."""
    argv = ["docker", "compose", "--profile", "debug", "exec", "-T", service, "python3", "-c", code]
    return subprocess.run(argv, cwd=root, capture_output=True, check=False).returncode
