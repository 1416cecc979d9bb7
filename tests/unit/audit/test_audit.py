"""`dkdbg audit`: each seeded leak is found once, in its line, by its rule; production files without one give nothing."""

import io
import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from dkdbg import __version__
from dkdbg.audit.rules import RULES
from dkdbg.main import main
from tests.checkout import git
from tests.golden import test_golden

#: Joined here, so that this file has no token itself.
HF, GITHUB, AWS, OURS = (
    "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "AKIA" + "Q3Z8K1M7X2W5T9R4",
    ("Zk3v9qLm2Xw7" * 4)[:43],
)

COMPOSE = "services:\n  app:\n    image: app:1\n"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: trainer}
spec:
  template:
    spec:
      containers:
        - name: trainer
          image: trainer:1
"""
#: Name of the leak: file, text, line, rule.
LEAKS = {
    "compose publishes 5678": ("compose.yaml", COMPOSE + '    ports: ["8000:8000",\n      "5678:5678"]\n', 5, "open-debug-port"),
    "compose publishes 0.0.0.0": (
        "docker-compose.prod.yml", COMPOSE + "    ports:\n      - target: 5678\n        published: 5678\n        host_ip: 0.0.0.0\n", 5, "open-debug-port",
    ),
    "a service waits": ("compose.yml", COMPOSE + "    command: python -m debugpy --listen 127.0.0.1:5678 --wait-for-client train.py\n", 4, "wait-for-client"),
    "a service without the profile": ("compose.yaml", COMPOSE + '    command: ["python", "-m", "debugpy", "--listen", "127.0.0.1:5678", "serve.py"]\n', 4, "debugger-ships"),
    "an image with debugpy": ("Dockerfile", "FROM python:3.11\nCOPY . .\nRUN pip install --no-cache-dir \\\n    torch debugpy\nCMD python serve.py\n", 3, "debugger-ships"),
    "SYS_PTRACE": ("compose.yaml", COMPOSE + "    cap_add:\n      - SYS_PTRACE\n", 5, "ptrace"),
    "a privileged pod": ("k8s/deploy.yaml", DEPLOYMENT + "          securityContext:\n            privileged: true\n", 11, "privileged"),
    "seccomp off": ("run.sh", "#!/bin/sh\ndocker run --rm --security-opt seccomp=unconfined app:1\n", 2, "unconfined"),
    "a secret in ARG": ("docker/Dockerfile.gpu", "FROM python:3.11\nARG HF_TOKEN\nRUN python fetch.py\n", 2, "secret-in-build"),
    "a token in .env": (".env", f"EPOCHS=3\nHUGGING_FACE_HUB_TOKEN={HF}\n", 2, "token-in-file"),
    "a token of dkdbg": (".env", f"DKDBG_TOKEN={OURS}\n", 1, "token-in-file"),
    "debugpy.listen": ("app/serve.py", "import debugpy as d\n\n\ndef main():\n    d.listen((\"0.0.0.0\", 5679))\n", 5, "open-debug-port"),
    "wait_for_client": ("train.py", "from debugpy import wait_for_client\nwait_for_client()\n", 2, "wait-for-client"),
    "a batch job listens": ("job.sbatch", "#!/bin/bash\n#SBATCH -N1\nsrun python -m debugpy \\\n  --listen $(hostname -i):5678 train.py\n", 3, "open-debug-port"),
    "hostPort": ("k8s/deploy.yaml", DEPLOYMENT + "          ports: [{containerPort: 5678, hostPort: 5678}]\n", 10, "host-debug-port"),
    "a default that is open": ("compose.yaml", COMPOSE + '    ports: ["${BIND:-0.0.0.0}:${PORT:-5678}:5678"]\n', 4, "open-debug-port"),
    "a port that a variable requires": ("compose.yaml", COMPOSE + '    ports: ["${DEBUG_PORT:?set it: 1024-65535}:5678"]\n', 4, "open-debug-port"),
    "a variable within a requirement": ("compose.yaml", COMPOSE + '    ports: ["${P:?see ${URL:?a}}:5678"]\n', 4, "open-debug-port"),
    "a port of a workflow": ("run.yml", "x:\n  run: docker run -p ${{inputs.a||'b:c'}}:5678 a\n", 2, "open-debug-port"),
    "a range": ("compose.yaml", COMPOSE + '    ports: ["5670-5680:5670-5680"]\n', 4, "open-debug-port"),
    "by an alias": ("compose.yaml", "x-p: &p\n  - 5678:5678\nservices:\n  app: {image: a, ports: *p}\n", 2, "open-debug-port"),
    "by a merge key": ("compose.yaml", "x-b: &b\n  privileged: true\nservices:\n  app:\n    <<: *b\n    image: a\n", 2, "privileged"),
    "a debug service is open too": ("compose.yaml", COMPOSE + '    profiles: [debug]\n    ports: ["5678:5678"]\n', 5, "open-debug-port"),
    "the host's network": ("compose.yaml", COMPOSE + "    profiles: [debug]\n    network_mode: host\n    command: debugpy --listen 0.0.0.0:5678 a.py\n", 6, "host-debug-port"),
    "the agent admits everybody": ("compose.yaml", COMPOSE + "    environment:\n      DKDBG_ALLOW: any\n", 5, "open-debug-port"),
    "CMD as a list": ("Dockerfile", 'FROM a\nCMD ["python", "-m", "debugpy", "--listen", "0.0.0.0:5678", "a.py"]\n', 2, "open-debug-port"),
    "EXPOSE": ("Dockerfile", "FROM a\nEXPOSE 8000 5678/tcp\n", 2, "open-debug-port"),
    "a stage below": ("Dockerfile", "FROM a AS base\nRUN pip install debugpy\nFROM base AS debug\nFROM base AS production\n", 2, "debugger-ships"),
    "ENV": ("Dockerfile", "ARG BASE=a\nFROM $BASE\nENV A=1 WANDB_API_KEY=$KEY\n", 3, "secret-in-build"),
    "build args": ("compose.yaml", "services:\n  app:\n    build:\n      context: .\n      args:\n        GIT_TOKEN: ${GIT_TOKEN}\n", 6, "secret-in-build"),
    "a target after one for debugging": ("Makefile", "debug:\n\techo\nrun: x\n\tpython -m debugpy --listen 127.0.0.1:5678 --wait-for-client t.py\n", 4, "wait-for-client"),
    "a line of a script that looks like a target": ("start.sh", "cat <<EOF >app.yaml\ndebug: false\nEOF\npython -m debugpy --listen 5678 --wait-for-client t.py\n", 4, "wait-for-client"),
    "a line that names another folder": ("start.sh", "cd dev && python -m debugpy --listen 127.0.0.1:5678 --wait-for-client t.py\n", 1, "wait-for-client"),
    "docker build": ("Makefile", "image:\n\tdocker build --build-arg NPM_TOKEN=$(NPM_TOKEN) .\n", 2, "secret-in-build"),
    "a Service": ("k8s/svc.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n    - port: 80\n    - port: 5678\n", 7, "open-debug-port"),
    "hostNetwork": ("k8s/deploy.yaml", DEPLOYMENT + "          args: [sh, agent.pyz, launch, --, python, a.py]\n      hostNetwork: true\n", 11, "host-debug-port"),
    "a pod's args": ("pod.yaml", DEPLOYMENT + '          args: ["-m", "debugpy", "--listen", "0.0.0.0:5678", "--wait-for-client", "a.py"]\n', 10, "wait-for-client"),
    "a template of Helm": ("chart/templates/a.yaml", "{{- if .Values.x }}\n" + DEPLOYMENT + "          {{- toYaml .Values.y | nindent 10 }}\n          securityContext: {privileged: true, {{ .Values.z }}: 1}\n{{- end }}\n", 12, "privileged"),
    "a capability of a pod": ("k8s/deploy.yaml", DEPLOYMENT + "          securityContext: {capabilities: {add: [SYS_PTRACE]}}\n", 10, "ptrace"),
    "a dev container": (".devcontainer/devcontainer.json", '{\n  // mine\n  "runArgs": [\n    "--cap-add",\n    "SYS_PTRACE"],\n}\n', 4, "ptrace"),
    "a dev container's port": (".devcontainer/devcontainer.json", '{\n  "image": "a",\n  "appPort": ["5678:5678"]}\n', 3, "open-debug-port"),
    "an editor that listens": (".vscode/launch.json", '{"configurations": [\n {"type": "debugpy", "listen": {\n "host": "0.0.0.0", "port": 5678}}]}\n', 3, "open-debug-port"),
    "ptvsd": ("a.py", "import ptvsd\nptvsd.enable_attach(address=('0.0.0.0', 3000))\n", 2, "open-debug-port"),
    "a default of the environment": ("a.py", "import os, debugpy\ndebugpy.listen((os.environ.get('HOST', '0.0.0.0'), 5678))\n", 2, "open-debug-port"),
    "an old Python": ("a.py", "print 'x'\nimport ptvsd\nptvsd.wait_for_attach()\n", 3, "wait-for-client"),
    "a started process": ("a.py", "import subprocess\n# debugpy\nsubprocess.run(['python', '-m', 'debugpy', '--listen', '0.0.0.0:5678', 'b.py'])\n", 3, "open-debug-port"),
    "docker run": ("start", "#!/usr/bin/env bash\nexec docker run -it -p5678:5678 --privileged app\n", 2, "privileged"),
    "a name for the host": ("a.py", "import debugpy\nHOST, PORT = '', 1\nADDRESS = '0.0.0.0'\ndebugpy.listen((ADDRESS, 5678))\n", 4, "open-debug-port"),
    "a pdb over TCP": ("a.py", "from remote_pdb import RemotePdb\nRemotePdb('0.0.0.0', 4444).set_trace()\n", 2, "open-debug-port"),
    "a tunnel of ssh": ("tunnel.sh", "ssh -N -L 0.0.0.0:5678:127.0.0.1:5678 gpu-box\n", 1, "open-debug-port"),
    "a forward of kubectl": ("forward.sh", "kubectl port-forward --address 0.0.0.0 pod/train 5678:5678\n", 1, "open-debug-port"),
    "socat": ("forward.sh", "socat TCP-LISTEN:5678,fork TCP:trainer:5678 &\n", 1, "open-debug-port"),
    "Ray's debugger": ("ray.sh", "ray start --head --ray-debugger-external\n", 1, "open-debug-port"),
    "supervisord": ("supervisord.conf", "[program:a]\ncommand=python -m debugpy --listen 0.0.0.0:5678 a.py\n", 2, "open-debug-port"),
    "a task": (".vscode/tasks.json", '{"tasks": [\n {"command": "docker run -p 5678:5678 app"}]}\n', 2, "open-debug-port"),
    "a Service by the name of a port": ("k8s/svc.yaml", "apiVersion: v1\nkind: Service\nspec:\n  ports:\n    - {port: 80, targetPort: debugpy}\n", 5, "open-debug-port"),
    "credentials in ARG": ("Dockerfile", "FROM a\nARG PIP_INDEX_URL=https://me:s3cr3t@pypi.example/simple\n", 2, "secret-in-build"),
    "a password": ("Dockerfile", "FROM a\nENV PGPASSWORD hunter2\n", 2, "secret-in-build"),
    "a token in a pod's env": ("k8s/a.yaml", "env:\n  - name: DKDBG_TOKEN\n    value: hunter2x\n", 2, "token-in-file"),
    "a short token": ("compose.yaml", COMPOSE + "    environment:\n      - DKDBG_TOKEN=hunter2x\n", 5, "token-in-file"),
    "an AWS key": (".env", f"EPOCHS=3\nAWSAccessKeyId={AWS}\n", 2, "token-in-file"),
    "the token's own file": (".config/dkdbg/token", OURS + "\n", 1, "token-in-file"),
    "a login": ("login.sh", "wandb login " + "0123456789abcdef" * 2 + "01234567\n", 1, "token-in-file"),
    "a port of the agent": ("job.sh", "export DKDBG_LISTEN=0.0.0.0:5694\n", 1, "open-debug-port"),
    "a token in a notebook": ("a.ipynb", '{"cells": [{"source": ["x\\n",\n "login(\'' + HF + '\')"]}]}\n', 2, "token-in-file"),
    "a token in a README": ("README.md", f"# x\n\ngit clone https://me:{GITHUB}@github.com/a/b\n", 3, "token-in-file"),
    "a command behind an entrypoint": ("compose.yaml", COMPOSE + "    entrypoint: [python, -m, debugpy]\n    command: [--listen, '0.0.0.0:5678', a.py]\n", 5, "open-debug-port"),
    "CMD behind an ENTRYPOINT": ("Dockerfile", 'FROM a\nENTRYPOINT ["python", "-m", "debugpy"]\nCMD ["--listen", "0.0.0.0:5678", "a.py"]\n', 3, "open-debug-port"),
    "a Dockerfile in a compose file": ("compose.yaml", "services:\n  app:\n    build:\n      dockerfile_inline: |\n        FROM a\n        RUN pip install debugpy\n", 6, "debugger-ships"),
    "a script in a Dockerfile": ("Dockerfile", "FROM a\nCOPY <<EOF /run.sh\npython -m debugpy --listen 0.0.0.0:5678 a.py\nEOF\n", 3, "open-debug-port"),
    "a password in RUN": ("Dockerfile", "FROM a\nRUN pip install -i https://me:s3cr3t@pypi.example/simple a\n", 2, "secret-in-build"),
    "another kind of secret in ARG": ("Dockerfile", "FROM a\nARG GITHUB_PAT\n", 2, "secret-in-build"),
    "values of a chart": ("chart/values.yaml", "a:\n  args:\n    - -m\n    - debugpy\n    - --listen\n    - 0.0.0.0:5678\n    - a.py\n", 3, "open-debug-port"),
    "a step of a pipeline": ("pipeline.yml", "steps:\n  - script: |\n      set -e\n      docker run -p 5678:5678 a\n", 4, "open-debug-port"),
    "a folded command": (".github/workflows/a.yml", "jobs:\n  a:\n    steps:\n      - run: >-\n          docker run\n          -p 5678:5678 a\n", 5, "open-debug-port"),
    "a ConfigMap": ("k8s/a.yaml", "apiVersion: v1\nkind: ConfigMap\ndata:\n  run.sh: |\n    python -m debugpy --listen 5678 --wait-for-client a.py\n", 5, "wait-for-client"),
    "a container of a workflow": ("k8s/a.yaml", "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n    - container:\n        command: [python, -m, debugpy, --listen, '0.0.0.0:5678', a.py]\n", 6, "open-debug-port"),
    "a list of objects": ("k8s/a.yaml", "apiVersion: v1\nkind: List\nitems:\n  - kind: Service\n    spec:\n      ports:\n        - port: 5678\n", 7, "open-debug-port"),
    "a debug port forwarded from another one by ssh": ("run.sh", "ssh -L 0.0.0.0:15678:localhost:5678 a\n", 1, "open-debug-port"),
    "a debug port forwarded from another one by socat": ("run.sh", "socat TCP-LISTEN:15678,fork,bind=0.0.0.0 TCP:127.0.0.1:5678 &\n", 1, "open-debug-port"),
    "a privileged container of a job of CI": (".github/workflows/a.yml", "jobs:\n  a:\n    container:\n      image: a\n      options: --cpus 1 --privileged\n", 5, "privileged"),
    "a port of a service of a job of CI": (".github/workflows/a.yml", "jobs:\n  a:\n    services:\n      b: {image: b, ports: ['80:80',\n        '5678:5678']}\n", 5, "open-debug-port"),
    "a container for debugging in the host's network": ("debug.sh", "docker run --network host a sh -c 'python -m debugpy --listen 0.0.0.0:5678 a.py'\n", 1, "open-debug-port"),
    "a debugger beside a container": ("debug.sh", "docker run a; python -m debugpy --listen 0.0.0.0:5678 a.py\n", 1, "open-debug-port"),
    "flags in one word": ("run.sh", "docker run -dp 5678:5678 app\n", 1, "open-debug-port"),
    "a variable of the script": ("run.sh", "PORT=5678\ndocker run -p $PORT:$PORT app\n", 2, "open-debug-port"),
    "an empty host": ("run.sh", "python -m debugpy --listen :5678 a.py\n", 1, "open-debug-port"),
    "a pdb by the environment": (".env", "REMOTE_PDB_HOST=0.0.0.0\n", 1, "open-debug-port"),
    "a pdb on a web page": ("a.py", "import web_pdb\nweb_pdb.set_trace()\n", 2, "open-debug-port"),
    "either side of a choice": ("a.py", "import os, debugpy\ndebugpy.listen((os.getenv('HOST') or '0.0.0.0', 5678))\n", 2, "open-debug-port"),
    "a default of an option": ("a.py", "import debugpy\np.add_argument('--debug-host', default='0.0.0.0')\ndebugpy.listen((p.parse_args().debug_host, 5678))\n", 3, "open-debug-port"),
    "values with a switch for an API's page": ("chart/values.yaml", "swagger: true\nsecurityContext: {x: 1}\nrun: python -m debugpy --listen 0.0.0.0:5678 a.py\n", 3, "open-debug-port"),
    "the name of the host": ("a.py", "import socket, debugpy\ndebugpy.listen((socket.gethostname(), 5678))\n", 2, "open-debug-port"),
    "an image with debugpy by a here-document": ("Dockerfile", "FROM a\nRUN <<EOF\npip install \\\n  debugpy\nEOF\n", 3, "debugger-ships"),
    "a line of a here-document": ("Dockerfile", "FROM a\nRUN <<EOF\nset -e\n\npip install debugpy\nEOF\n", 5, "debugger-ships"),
    "a copied venv": ("Dockerfile", "FROM a AS build\nRUN python -m venv /opt/env && /opt/env/bin/pip install debugpy\nFROM a\nCOPY --from=build /opt/env /opt/env\n", 2, "debugger-ships"),
    "a copied prefix": ("Dockerfile", "FROM a\nRUN pip install --prefix=/install debugpy\nFROM b\nCOPY --from=0 /install /usr/local\n", 2, "debugger-ships"),
    "copied packages": ("Dockerfile", "FROM a AS base\nRUN pip install debugpy\nFROM base AS build\nRUN make\nFROM b\nCOPY --from=build /usr/local/lib/python3.10/site-packages /usr/local/lib/python3.10/site-packages\n", 2, "debugger-ships"),
    "a copied project with its venv": ("Dockerfile", "FROM a AS build\nWORKDIR /app\nRUN uv sync && uv pip install debugpy\nFROM b\nCOPY --from=build /app /app\n", 3, "debugger-ships"),
    "a key in one line": ("a.json", '{"key": "-----BEGIN ' + "PRIVATE KEY-----" + '\\r\\nMIIEvQIBADANBgkqhkiG9w0B"}\n', 1, "token-in-file"),
    "a key that was escaped twice": (".env", "KEY=-----BEGIN " + "PRIVATE KEY-----" + "\\\\nMIIEvQIBADANBgkqhkiG9w0B\n", 1, "token-in-file"),
    "a key": ("deploy.pem", "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE\n", 1, "token-in-file"),
}  # fmt: skip
#: Production files, and what is for debugging on loopback: nothing of it is a finding.
CLEAN = {
    "compose.yaml": """\
services:
  app:
    build: {context: ., args: {PYTHON_VERSION: "3.11", TOKENIZER: bert}}
    command: python train.py --wait
    ports: ["8000:8000", "127.0.0.1:5678:5678", "${DKDBG_BIND:-127.0.0.1}:${P:-5678}:5678", "${BIND}:5678:5678", "${BIND:?an address: 127.0.0.1}:5678:5678"]
    environment: {POSTGRES_PASSWORD: "${DB_PASSWORD}", DKDBG_TOKEN: "${DKDBG_TOKEN}", HF_TOKEN: null}
    shm_size: 8gb
  app-debug:
    extends: {service: app}
    profiles: [debug]
    command: python -m debugpy --listen 0.0.0.0:5678 --wait-for-client train.py
    cap_add: [SYS_PTRACE]
    ports: !override ["127.0.0.1:5678:5678"]
""",
    "Dockerfile": """\
# syntax=docker/dockerfile:1
FROM python:3.11 AS base
ARG PIP_TOKEN_FILE=/run/secrets/pip
ENV PASSWORD_HASHERS=argon2 API_KEY_HEADER=X-Api-Key ACCESS_TOKEN_EXPIRE_MINUTES=30
ENV TOKENIZERS_PARALLELISM=false GPG_KEY=A035C8C19219BA821ECEA86B64E628F8D684696D HF_TOKEN=""
RUN --mount=type=secret,id=hf HF_TOKEN=$(cat /run/secrets/hf) python fetch.py && pip install -r requirements.txt
FROM base AS debug
RUN pip install debugpy
CMD ["python", "-m", "debugpy", "--listen", "0.0.0.0:5678", "--wait-for-client", "train.py"]
FROM base AS production
EXPOSE 8000
CMD ["python", "train.py"]
""",
    "Dockerfile.dev": "FROM python:3.11\nRUN pip install debugpy\nEXPOSE 8000\n",
    "requirements.txt": "torch\n# debugpy\nnumpy\n",
    "requirements-dev.txt": "debugpy\n",
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["torch"]\n[dependency-groups]\ndev = ["debugpy>=1.8"]\n',
    "k8s/deploy.yaml": DEPLOYMENT + "          ports: [{containerPort: 8000}]\n          securityContext: {privileged: false}\n",
    "chart/templates/deploy.yaml": DEPLOYMENT.replace("trainer:1", "{{ .Values.image }}") + "{{- if .Values.debug }}\n          securityContext: {{ toYaml .Values.x }}\n{{- end }}\n",
    "train.py": """\
import os
import debugpy
print("attach: python -m debugpy --listen 0.0.0.0:5678 --wait-for-client")
if os.environ.get("DEBUG"):
    debugpy.listen(5678)
    debugpy.listen(("127.0.0.1", 5678))
    debugpy.listen((os.environ["HOST"], int(os.environ["PORT"])))
listen(("0.0.0.0", 80))
""",
    "tests/test_wait.py": "import debugpy\ndebugpy.listen(('0.0.0.0', 1))\ndebugpy.wait_for_client()\n",
    "run.sh": """\
#!/bin/sh
# python -m debugpy --listen 0.0.0.0:5678 --wait-for-client train.py
python -m debugpy --listen 5678 train.py
docker run -p 127.0.0.1:5678:5678 -e HF_TOKEN app
export WANDB_API_KEY=$(cat key) DKDBG_TOKEN="$(cat ~/.config/dkdbg/token)"
""",
    "forward.sh": "ssh -L 5678:localhost:5678 a\nssh -L 127.0.0.1:5678:b:5678 -R 0.0.0.0:8080:c:80 a\nkubectl port-forward pod/a 5678\nkubectl port-forward --address 127.0.0.1,localhost pod/a 5678\nsocat TCP-LISTEN:5678,bind=127.0.0.1,fork TCP:a:1\nssh -R 5678 a\nssh -L 127.0.0.1:1:b:5678 a\nsocat TCP-LISTEN:80 TCP:a:80\n",
    ".github/workflows/ci.yml": "jobs:\n  a:\n    container: a\n    services:\n      b: {image: b, ports: ['5432:5432', '127.0.0.1:5678:5678'], options: --cpus 1}\n",
    "Makefile": "A := b\nall:\n\techo\ndebug: A = c\ndebug: all\n\techo\n\tpython -m debugpy --listen 127.0.0.1:5678 --wait-for-client t.py\n\tdocker run -p 127.0.0.1:5678:5678 a python -m debugpy --listen 0.0.0.0:5678 t.py\n",
    "package.json": '{"scripts": {\n  "start": "a",\n  "dev:py": "python -m debugpy --listen 127.0.0.1:5678 --wait-for-client t.py"\n}}\n',
    "scripts/debug.sh": "python -m debugpy --listen localhost:5678 --wait-for-client train.py\n",
    ".devcontainer/devcontainer.json": '{"appPort": [5678, 8000], "forwardPorts": [5678], "build": {"args": {"VARIANT": "3.11"}}}\n',
    ".vscode/launch.json": '{"configurations": [{"connect": {"host": "127.0.0.1", "port": 5678}}, {"listen": {"host": "localhost", "port": 1}}]}\n',
    "a.ipynb": f'"https://s3/a?X-Amz-Credential={AWS}%2F20220725%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Expires=300", "https://s3/a?Expires=1&AWSAccessKeyId={AWS}&Signature=x"',
    "http.log": f"Authorization: AWS4-HMAC-SHA256 Credential={AWS}/20220725/us-east-1/s3/aws4_request, Signature=0\n",
    "README.md": f"`export HF_TOKEN=hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`, AKIAIOSFODNN7EXAMPLE, {'ghp_' + 'a' * 36}\n",
    "render.py": "env = {'DKDBG_TOKEN': plan.token.something_long_enough}\nDKDBG_TOKEN = choose_the_token_of_the_service()\n",
    "entry/Dockerfile": 'FROM a\nARG COMPASS PYTHON_PATH VITE_MAPS_API_KEY\nRUN git clone https://$USER:$TOKEN@git.example/a\nENTRYPOINT ["python", "-m"]\nCMD ["app"]\n',
    "n8n/compose.yaml": "services:\n  n8n: {image: n8nio/n8n, ports: ['5678:5678']}\n",
    "n8n/run.sh": "docker run -dp 5678:5678 n8nio/n8n\npython -m debugpy --listen [::1]:5678 a.py\nHOST=127.0.0.1\npython -m debugpy --listen $HOST:5678 a.py\n",
    "api/swagger.json": '{\n  "swagger": "2.0", "apiVersion": 1, "x": "privileged' + "a" * 200_000 + '"\n}\n',
    "chart/values.yaml": "args: [-m, debugpy, --listen, '127.0.0.1:5678', a.py]\n",
    "templates/Dockerfile.j2": "FROM {{ base }}\nRUN pip install debugpy\n",
    "uv.lock": f'url = "{GITHUB}"\n',
}  # fmt: skip


NOTHING = {"code": 0, "out": "", "err": ""}


@pytest.fixture
def audit(dkdbg):
    return lambda root, *words: dkdbg(root, "audit", *words)


def written(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def places(out):
    return {tuple(line.split(": ", 2)[:2]) for line in out.splitlines() if re.match(r"\S.*:\d+: ", line)}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_found_in_its_line(name, tmp_path, audit):
    path, text, line, rule = LEAKS[name]
    said = audit(written(tmp_path, {path: text}))
    assert (f"{path}:{line}", rule) in places(said.out), said.out
    assert said.code == 1
    assert not any(secret in said.out for secret in (HF, GITHUB, OURS))


def test_a_manifest_of_dkdbg_hides_no_leak(tmp_path, audit):
    path, text, line, rule = next(iter(LEAKS.values()))
    manifest = json.dumps({"version": 1, "files": {path: ""}})
    for folder in (".", "part"):
        root = tmp_path / folder.replace(".", "root")
        written(root, {f"{folder}/{path}": text, f"{folder}/.dkdbg/manifest.json": manifest})
        assert (f"{(Path(folder) / path).as_posix()}:{line}", rule) in places(audit(root).out)


def test_each_rule_has_a_leak():
    found = {rule for _, _, _, rule in LEAKS.values()}
    assert found == set(RULES) - {"old-agent", "unread"}  # their tests are below


def test_production_files_and_debugging_on_loopback_are_no_finding(tmp_path, audit):
    assert vars(audit(written(tmp_path, CLEAN))) == NOTHING
    for path, text in CLEAN.items():
        alone = written(tmp_path / "alone" / path.replace("/", "-"), {path: text})
        assert audit(alone).code == 0, path


@pytest.mark.parametrize("case", test_golden.CASES)
def test_what_init_writes_is_no_finding(case, tmp_path, audit):
    files = {name: content.decode() for name, content in test_golden.written(case).items()}
    assert vars(audit(written(tmp_path, files))) == NOTHING


def test_a_port_that_the_code_names_is_a_debug_port(tmp_path, audit):
    files = {
        "a.py": "import debugpy\ndebugpy.listen(('127.0.0.1', 7777))\n",
        "compose.yaml": COMPOSE + '    ports: ["7777:7777"]\n',
    }
    assert places(audit(written(tmp_path, files)).out) == {("compose.yaml:4", "open-debug-port")}


def test_a_port_of_the_program_is_no_debug_port(tmp_path, audit):
    words = "python -m debugpy --listen 127.0.0.1:7777 serve.py --port 8000\npython -m ptvsd --host 127.0.0.1 --port 7778 serve.py --port 8001\n"
    ports = "".join(f'      - "{port}:{port}"\n' for port in (7777, 8000, 7778, 8001))
    written(tmp_path, {"start.sh": words, "compose.yaml": f"{COMPOSE}    ports:\n{ports}"})
    assert places(audit(tmp_path).out) == {
        ("compose.yaml:5", "open-debug-port"),
        ("compose.yaml:7", "open-debug-port"),
    }


def test_each_document_of_a_file_is_read(tmp_path, audit):
    safe = DEPLOYMENT + "          securityContext:\n            privileged: false\n---\n"
    text = (safe + safe.replace("false", "true")) * 20
    lines = {(f"a.yaml:{at}", "privileged") for at, line in enumerate(text.split("\n"), 1) if "true" in line}
    assert places(audit(written(tmp_path, {"a.yaml": text})).out) == lines


@pytest.mark.parametrize(
    "lines",
    [
        "COPY pins/prod.txt /tmp/list.txt\nRUN pip install -r /tmp/list.txt\n",
        "COPY pins/prod.txt .\nRUN uv pip install --requirement prod.txt\n",
        "FROM a AS build\nCOPY pins/prod.txt /r.txt\nRUN pip install --prefix /x -r /r.txt\nFROM a\nCOPY --from=build /x /usr\n",
    ],
)
def test_a_list_of_packages_counts_by_the_name_that_the_image_installs_it_under(tmp_path, audit, lines):
    files = {"pins/prod.txt": "torch\ndebugpy\n", "pins/more.txt": "debugpy\n"}
    root = written(tmp_path, {"Dockerfile": f"FROM a\n{lines}", **files})
    assert places(audit(root).out) == {("pins/prod.txt:2", "debugger-ships")}


@pytest.mark.parametrize("copied", ["/src/dist", "/app/client/dist"])
def test_a_stage_of_which_only_its_products_are_copied_ships_no_debugger(tmp_path, audit, copied):
    text = f"FROM a AS build\nRUN pip install debugpy\nFROM b\nCOPY --from=build {copied} /x\n"
    assert audit(written(tmp_path, {"Dockerfile": text})).code == 0


def test_requirements_are_those_of_the_image(tmp_path, audit):
    project = '[project]\nname = "a"\nkeywords = ["for debugpy"]\ndependencies = [\n  "debugpy>=1.8",\n]\n'
    files = {
        "Dockerfile": "FROM a\nRUN pip install -r requirements.txt .\n",
        "requirements.txt": "torch\ndebugpy==1.8\n",
        "pyproject.toml": project,
    }
    found = {("requirements.txt:2", "debugger-ships"), ("pyproject.toml:5", "debugger-ships")}
    assert places(audit(written(tmp_path, files)).out) == found
    (tmp_path / "Dockerfile").write_text("FROM a\nRUN pip install -r requirements-prod.txt\n")
    assert audit(tmp_path).code == 0


@pytest.mark.parametrize(
    ("run", "is_found"),
    [("uv run --frozen python -m a", True), ("uv run --no-sync a", False), ("uv run --no-project a", False)],
)
def test_uv_run_in_a_build_installs_the_project(tmp_path, audit, run, is_found):
    project = '[project]\nname = "a"\ndependencies = ["debugpy>=1.8"]\n'
    root = written(tmp_path, {"Dockerfile": f"FROM a\nRUN {run}\n", "pyproject.toml": project})
    assert bool(places(audit(root).out)) is is_found


@pytest.mark.parametrize(
    ("run", "is_found"),
    [
        ('pip install --no-cache-dir ".[gpu,dev]"', True), ("uv sync --frozen --extra dev", True), ("uv sync --all-extras", True),
        ("pip install .[gpu]", False), ("pip install .", False), ("uv sync --extra gpu", False),
    ],
)  # fmt: skip
def test_an_extra_counts_if_the_image_installs_it(tmp_path, audit, run, is_found):
    project = (
        '[project]\nname = "a"\n[project.optional-dependencies]\ngpu = ["torch"]\ndev = ["debugpy>=1.8"]\n'
    )
    root = written(tmp_path, {"Dockerfile": f"FROM a\nRUN {run}\n", "pyproject.toml": project})
    assert places(audit(root).out) == ({("pyproject.toml:5", "debugger-ships")} if is_found else set())


def test_an_older_agent_is_found_and_the_present_one_is_not(tmp_path, audit):
    def agent(version):
        out = io.BytesIO(b"#!/bin/sh\n")
        out.seek(0, io.SEEK_END)
        with zipfile.ZipFile(out, "a") as archive:
            archive.writestr("dkdbg/__init__.py", f'"""x"""\n__version__ = "{version}"\n')
        return out.getvalue()

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("dkdbg/__init__.py", "x")
    broken = bytearray(out.getvalue())
    broken[51:63] = b"\xff" * 12  # after the header of LZMA

    place = tmp_path / "sub" / ".dkdbg" / "agent.pyz"
    place.parent.mkdir(parents=True)
    place.write_bytes(agent("0.0.1"))
    assert places(audit(tmp_path).out) == {("sub/.dkdbg/agent.pyz:1", "old-agent")}
    for other in (agent(__version__), b"no zip", bytes(broken)):
        place.write_bytes(other)
        assert audit(tmp_path).code == 0


def test_a_comment_accepts_a_finding(tmp_path, audit):
    here = COMPOSE + "    privileged: true  # dkdbg: ignore privileged, ptrace\n"
    assert audit(written(tmp_path, {"compose.yaml": here})).code == 0
    above = "FROM a\n# dkdbg: ignore debugger-ships\nRUN pip install debugpy\n"
    assert audit(written(tmp_path, {"Dockerfile": above})).code == 0
    other = COMPOSE + "    privileged: true  # dkdbg: ignore privilege\n"
    said = audit(written(tmp_path, {"compose.yaml": other}))
    assert said.code == 1
    assert "compose.yaml: `dkdbg: ignore privilege`: unknown rule" in said.err


def test_paths_choose_what_is_reported(tmp_path, audit, capsys, monkeypatch):
    written(
        tmp_path / "a",
        {"x/compose.yaml": COMPOSE + "    privileged: true\n", "y/start.sh": "docker run --privileged a\n"},
    )
    assert places(audit(tmp_path / "a", "x").out) == {("x/compose.yaml:4", "privileged")}
    assert places(audit(tmp_path / "a", "y/start.sh").out) == {("y/start.sh:1", "privileged")}
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert main(["audit", "../a"]) == 1
    assert len(places(capsys.readouterr().out)) == 2
    assert main(["audit", "nowhere"]) == 2


def test_of_a_git_repository_only_what_git_may_commit_counts(tmp_path, audit):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    written(tmp_path, {".gitignore": ".env\n", ".env": f"T={HF}\n", "b.env": f"T={HF}\n"})
    assert places(audit(tmp_path).out) == {("b.env:1", "token-in-file")}


def test_what_git_has_is_read_wherever_it_is(tmp_path, audit):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    deep = "/".join("abcdefghijkl")
    written(
        tmp_path, {"build/a.sh": "docker run --privileged a\n", f"{deep}/a.sh": "docker run --privileged a\n"}
    )
    written(tmp_path, {"node_modules/b.env": f"T={HF}\n", "node_modules/a.sh": "docker run --privileged a\n"})
    assert places(audit(tmp_path).out) == {
        ("build/a.sh:1", "privileged"),
        (f"{deep}/a.sh:1", "privileged"),
        ("node_modules/b.env:1", "token-in-file"),
    }


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [("audit.audit._MAX_S", -1.0, "."), ("audit.audit._MAX_CHARS", 1, "."), ("audit.audit._MAX_PORTS", 1, "."),
     ("setup.detect.files.MAX_FILES", 1, "."), ("setup.detect.files.MAX_WALK_S", -1.0, "."), ("setup.detect.values.MAX_CHARS", 1, "compose.yaml")],
)  # fmt: skip
def test_what_was_not_read_is_a_finding(name, value, path, *, tmp_path, audit, monkeypatch):
    monkeypatch.setattr(f"dkdbg.{name}", value)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    written(tmp_path, {"start.sh": "debugpy --listen 7777\n", "compose.yaml": COMPOSE})
    written(tmp_path, {"compose.yaml": COMPOSE + "    privileged: false\n"})
    said = audit(tmp_path)
    assert (said.code, places(said.out)) == (1, {(f"{path}:1", "unread")})
    assert audit(tmp_path, "compose.yaml").code == 1  # its ports may be in what was not read


def test_yaml_that_is_not_valid_is_a_finding_and_a_template_is_not(tmp_path, audit):
    written(tmp_path, {"compose.yaml": "privileged: [\n", "chart.yaml": "privileged: [\n{{ if }\n"})
    said = audit(tmp_path)
    assert (said.code, places(said.out)) == (1, {("compose.yaml:1", "unread")})
    assert "chart.yaml: not valid YAML" in said.err
    written(tmp_path, {"compose.yaml": 'privileged: "\\UFFFFFFFF"\n'})
    said = audit(tmp_path)
    assert "compose.yaml:1: unread: it has an escape beyond U+10FFFF" in said.out


def test_a_path_that_cannot_be_read_is_named_once(tmp_path, audit):
    (tmp_path / "loop").symlink_to("loop")
    said = audit(tmp_path, "loop").err  # Python 3.13 has the system's text
    assert re.search("cannot read loop: (it is a link to itself|Too many levels of symbolic links)\n", said)
    assert audit(tmp_path).code == 0
    assert "cannot read no: No such file or directory\n" in audit(tmp_path, "no").err


def test_a_finding_is_one_line(tmp_path, audit):
    """A value of the repository forges no other finding, and clears no terminal."""
    entry = {
        "name": "\x1b[2J\na.py:1: ptrace: x",
        "listen": {"host": "0.0.0.0\nb.py:1: ptrace: " + "x" * 9_000},
    }
    written(tmp_path, {".vscode/launch.json": json.dumps({"configurations": [entry]})})
    said = audit(tmp_path)
    assert places(said.out) == {(".vscode/launch.json:1", "open-debug-port")}
    assert "\x1b" not in said.out
    assert max(map(len, said.out.splitlines())) < 1_000


def test_sarif_has_the_rules_and_a_place_for_each_finding(tmp_path, audit):
    written(tmp_path, {"my app/compose.yaml": COMPOSE + '    ports: ["5678:5678"]\n'})
    said = audit(tmp_path, "--format", "sarif")
    log = json.loads(said.out)
    run = log["runs"][0]
    result = run["results"][0]
    assert (said.code, log["version"]) == (1, "2.1.0")
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == list(RULES)
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "open-debug-port"
    place = result["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "my%20app/compose.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 4},
    }
    (tmp_path / "my app/compose.yaml").write_text("services: {}\n")
    said = audit(tmp_path, "--format", "sarif")
    assert (said.code, json.loads(said.out)["runs"][0]["results"]) == (0, [])


@pytest.mark.parametrize(
    "text",
    ["a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
     "privileged: &a {" + ",".join(map(str, range(8_000))) + "}\n" + "b:\n" + "- <<: *a\n" * 8_000,
     "services: &s\n  app: {image: a, privileged: true, extends: *s}\n", "x: &x {<<: *x}\nprivileged: true\n",
     "apiVersion: v1\nkind: List\nitems:\n- &a {kind: Service, spec: {ports: [{port: 5678}]}}\n"
     + "".join(f"- &{b} {{kind: List, items: [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
     "privileged: " + "[" * 100_000, "privileged: !!python/object/apply:os.system [touch pwned]\n", "privileged: \0\n"],
    ids=["aliases", "merge keys", "itself", "merges itself", "lists", "nesting", "a tag", "binary"],
)  # fmt: skip
def test_hostile_yaml_ends_the_audit_neither_late_nor_with_an_error(text, tmp_path, audit, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, {"compose.yaml": text})
    assert audit(tmp_path).code in {0, 1}
    assert [each.name for each in tmp_path.iterdir()] == ["compose.yaml"]


@pytest.mark.parametrize(
    ("path", "text"),
    [("Dockerfile", "FROM a\nRUN " + "pip install " * 40_000), ("compose.yaml", "privileged: " + "{{" * 50_000), ("a.sh", "-m debugpy " * 40_000),
     ("b.sh", "/a" * 250_000), ("c", "#!" + "/a" * 250_000), ("a.sh", "debugpy --listen " + "9" * 5_000),
     ("b.py", "import debugpy\nprint 1 " + "enable_attach(" * 40_000), ("Dockerfile", "FROM a AS a\n" + "".join(f"FROM s{n} AS s{n + 1}\n" for n in range(20_000))),
     ("a.env", ("DKDBG_TOKEN" + " " * 150) * 3_000), ("a.py", "import debugpy\n" + "(" * 100_000), (".vscode/launch.json", "[" * 100_000),
     ("Dockerfile", 'FROM a\nENTRYPOINT ["' + "b " * 100_000 + '"]\n' + 'CMD ["a"]\n' * 3_000),
     ("a.sh", "A=" + "debugpy/" * 25 + "\n" + ("$A" * 100 + "\n") * 2_000),
     ("a.py", "import debugpy\ndebugpy.listen((" + "'127.0.0.1' if a else " * 2_500 + "a, 5678))\n")],
    ids=["installs", "braces", "debuggers", "steps", "interpreter", "digits", "calls", "stages", "tokens", "parentheses", "brackets", "entrypoint", "variables", "choices"],
)  # fmt: skip
def test_hostile_text_is_read_in_seconds(path, text, tmp_path, audit):
    """No pattern may look at the same text again and again."""
    assert audit(written(tmp_path, {path: text})).code == 0


def test_a_link_out_of_the_repository_is_not_read(tmp_path, audit):
    written(tmp_path, {"secret.env": f"T={HF}\n", "repo/a.txt": ""})
    (tmp_path / "repo" / "b.env").symlink_to(tmp_path / "secret.env")
    (tmp_path / "repo" / ".dkdbg").symlink_to(tmp_path)
    said = audit(tmp_path / "repo")
    assert (said.code, said.out) == (0, "")
    assert "b.env: a link that leads out of the repository" in said.err


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("a.py", ("x" * 999 + "\n") * 601, "only its first 0.6 MB were read"),
        (".devcontainer/devcontainer.json", '{"image": "a"\n "privileged": true}\n', "not valid JSON"),
        (".vscode/launch.json", '{"configurations": [', "not valid JSON"),
    ],
    ids=["large", "a dev container without a comma", "half a launch.json"],
)
def test_a_file_that_was_not_read_whole_is_said(path, text, why, *, tmp_path, audit):
    said = audit(written(tmp_path, {path: text}))
    assert said.code == 0
    assert said.err.startswith(f"dkdbg: {path}: {why}")


def test_many_files_that_were_read_in_part_are_one_note(tmp_path, audit):
    (tmp_path / "a.bin").write_bytes(bytes(700_000))
    said = audit(written(tmp_path, dict.fromkeys((f"{at}.txt" for at in range(5)), ("x" * 999 + "\n") * 601)))
    assert said.code == 0
    assert said.err == "dkdbg: 0.txt, 1.txt, 2.txt, 3.txt, 4.txt: only its first 0.6 MB were read\n"


@pytest.mark.parametrize(
    "schema",
    [
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a.yaml: |\n    openapi: 3.0.1\n    swagger: '2.0'\n",
        "openapi: 3.0.1\npaths: {}\n",
        "kind: CustomResourceDefinition\nspec: {}\n",
    ],
    ids=["text of a ConfigMap", "an API", "a resource"],
)
def test_a_schema_hides_no_other_document_of_its_file(schema, tmp_path, audit):
    pod = DEPLOYMENT + "          securityContext:\n            privileged: true\n"
    for text in (f"{schema}---\n{pod}", f"{pod}--- # x\n{schema}"):
        line = text[: text.index("privileged")].count("\n") + 1
        assert places(audit(written(tmp_path, {"a.yaml": text})).out) == {(f"a.yaml:{line}", "privileged")}


def test_only_the_outer_object_of_json_is_a_schema(tmp_path, audit):
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "spec": {"containers": [{"securityContext": {"privileged": True}}]},
    }
    text = json.dumps({**pod, "data": {"openapi": "3.0.1"}}, indent=2)
    assert {rule for _, rule in places(audit(written(tmp_path, {"a.json": text})).out)} == {"privileged"}


@pytest.mark.parametrize("item", ["[*a{}]", "{{x: *a{}}}", "{{<<: {{y: *a{}}}}}"])
def test_yaml_whose_aliases_nest_too_deeply_is_a_finding(item, tmp_path, audit):
    lines = "".join(f"a{at}: &a{at} {item.format(at - 1)}\n" for at in range(1, 3000))
    said = audit(written(tmp_path, {"a.yaml": f"a0: &a0 privileged\n{lines}"}))
    assert (said.code, places(said.out)) == (1, {("a.yaml:1", "unread")})
    assert "a.yaml:1: unread: it is nested too deeply" in said.out


def test_sarif_of_an_audit_that_failed_names_the_reason(tmp_path, audit):
    said = audit(tmp_path, "--format", "sarif", "no")
    (run,) = json.loads(said.out)["runs"]
    (invocation,) = run["invocations"]
    assert (said.code, run["results"], invocation["executionSuccessful"]) == (2, [], False)
    assert "cannot read no" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_a_finding_outside_of_the_repository_is_named_from_where_it_was_typed(tmp_path, capsys, monkeypatch):
    for folder in ("a", "b"):
        written(tmp_path / folder, {"compose.yaml": COMPOSE + "    privileged: true\n"})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["audit", "../a", f"{tmp_path}/b/"]) == 1
    said = capsys.readouterr().out
    assert places(said) == {
        ("../a/compose.yaml:4", "privileged"),
        (f"{tmp_path}/b/compose.yaml:4", "privileged"),
    }
    assert "2 findings in 2 files" in said


def test_sarif_has_an_absolute_uri_for_a_file_outside_of_the_repository(tmp_path, capsys, monkeypatch):
    """A viewer resolves a relative one below the repository, and opens none that climbs out of it."""
    for folder in ("here", "my app"):
        written(tmp_path / folder, {"compose.yaml": COMPOSE + "    privileged: true\n"})
    (tmp_path / "here" / "link").symlink_to("../my app")
    monkeypatch.chdir(tmp_path / "here")
    for typed in ("../my app", "link", f"{tmp_path}/my app"):
        assert main(["audit", "--format", "sarif", typed]) == 1
        (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place == {"uri": f"file://{tmp_path}/my%20app/compose.yaml"}


def test_a_repository_of_which_git_tells_nothing_is_said(tmp_path, audit):
    """Git refuses one of another user ("dubious ownership"); here its folder is empty."""
    (tmp_path / ".git").mkdir()
    said = audit(written(tmp_path, {"sub/a.sh": "docker run --privileged a\n"}))
    assert (said.code, places(said.out)) == (1, {("sub/a.sh:1", "privileged")})
    assert f"git config --global --add safe.directory {tmp_path}" in said.err


def test_a_repository_inside_the_repository_is_said_to_be_left_out(tmp_path, audit):
    """Git names a submodule by its folder alone, and so one that it does not track."""
    for folder in (tmp_path, tmp_path / "its own"):
        folder.mkdir(exist_ok=True)
        git(folder, "init", "--quiet")
    (tmp_path / "link").symlink_to(".")
    git(tmp_path, "init", "--quiet", "of \x1b[2Ja\nstranger")
    said = audit(written(tmp_path, {"its own/a.sh": "docker run --privileged a\n"}))
    assert (said.code, said.out) == (0, "")
    assert "link" not in said.err
    assert r"of \x1b[2Ja\nstranger: a separate repository" in said.err
    assert f"its own: a separate repository, not read: dkdbg -C '{tmp_path}/its own' audit" in said.err
    assert places(audit(tmp_path / "its own").out) == {("a.sh:1", "privileged")}


def test_without_git_the_folders_that_were_not_read_are_said(tmp_path, audit, monkeypatch):
    monkeypatch.setattr("dkdbg.setup.detect.files.MAX_DIR_ENTRIES", 3)
    written(tmp_path, {"build/a.sh": "", **{f"data/{at}": "" for at in range(4)}, f"{'a/' * 9}a.sh": ""})
    said = audit(tmp_path)
    assert said.code == 0
    assert said.err.splitlines() == [
        "dkdbg: build: build products were not read",
        "dkdbg: data: only its first 3 entries were read",
        f"dkdbg: {'/'.join('a' * 9)}: folders this deep were not read",
    ]
