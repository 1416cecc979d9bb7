"""Which files an image is made of, when the code is mounted over its copy."""

import pytest

from dkdbg.setup.detect.docker.dockerfile import image_inputs


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("COPY requirements.txt .\nRUN pip install -r requirements.txt\nCOPY . .", ("requirements.txt", "./")),
        ("COPY . .\nCMD python train.py", ("./",)),
        ("COPY . /app\nRUN pip install -e . && pip install --no-cache-dir -r requirements/dev/requirements.txt", ("./",)),
        ("COPY src /app/src\nRUN apt-get update \\\n  && apt-get install -y git; mkdir -p /out", ("src/",)),
        ("COPY pyproject.toml uv.lock ./\nRUN uv sync --frozen --no-install-project", ("pyproject.toml", "uv.lock")),
        ("COPY --chown=a:b [\"my file.txt\", \"/x/\"]\nRUN anything", ("my file.txt",)),
        ("COPY requirements/*.txt /r/\nRUN python3 -m pip install -r /r/requirements-dev.txt", ("requirements/",)),
        ("COPY . .\nRUN pip install torch -f https://example.org/stable.html -cconstraints.txt", ("./",)),
        ("COPY . .\nRUN apt-get install -f -y git && rm -rf /var/lib/apt/lists/*", ("./",)),
        ("COPY . .\nRUN conda install -c conda-forge numpy && pip install -r requirements.txt", ("./",)),
        ("COPY . .\nRUN conda env create -n x -f environment-gpu.yaml && conda clean -a", ("./",)),
        ("COPY --from=builder /app /app\nRUN make", ()),
        ("RUN make\nCOPY . .", ("./",)),
    ],
)  # fmt: skip
def test_code_that_no_later_step_takes_is_no_input(text, inputs):
    assert image_inputs(f"FROM python:3.11\nWORKDIR /app\n{text}\n") == inputs


@pytest.mark.parametrize(
    "text",
    [
        "COPY . .\nRUN pip install .",
        "COPY . /app\nRUN pip install --no-deps /app[train]",
        "COPY . .\nRUN python setup.py build_ext --inplace",
        "COPY . .\nRUN make -C csrc",
        "COPY . .\nRUN pip install -r requirements/prod.txt",
        "COPY . .\nRUN pip install -rdeps.txt",
        "COPY . .\nRUN pip install -r a/b/c/requirements.txt",
        "COPY . .\nRUN uv pip install --system --requirement=docker/pip.txt",
        "COPY reqs/*.txt /r/\nRUN pip install -r /r/dev.txt",
        "COPY . .\nRUN conda env create -f env.yml",
        "COPY . .\nRUN micromamba install -y --file=env/gpu.yml",
        "COPY . .\nRUN uv sync --no-editable",
        "COPY . .\nRUN echo $(cat version.txt) >/version",
        "COPY . .\nRUN if [ -f x ]; then ./install.sh; fi",
        "COPY . .\nRUN <<EOF\ncp -r src /opt\nEOF",
        "COPY . .\nRUN [\"cp\", \"-r\", \".\", \"/opt\"]",
        "RUN --mount=type=bind,target=. pip install -r requirements.txt",
        "COPY $SOURCES .",
        "COPY ../other .",
        "ONBUILD COPY . .",
    ],
)  # fmt: skip
def test_code_that_a_step_makes_something_of_is_an_input_and_a_start_builds(text):
    assert image_inputs(f"FROM python:3.11\nWORKDIR /app\n{text}\n") is None
