"""Apps that no command line starts: found by their own code, with the server that starts them."""

import pytest

FASTAPI = "from fastapi import FastAPI\napp = FastAPI()\n"


@pytest.mark.parametrize(
    ("path", "source", "command"),
    [
        ("main.py", FASTAPI, "uvicorn main:app"),
        ("api/main.py", FASTAPI, "uvicorn api.main:app"),
        ("web.py", "import flask\nserver: flask.Flask = flask.Flask(__name__)\n", "flask --app web:server run"),
        ("app.py", "from fastapi import FastAPI\ndef create_app(debug=False):\n    return FastAPI()\n", "uvicorn app:create_app --factory"),
        ("app.py", "from flask import Flask\ndef create_app():\n    return Flask('a')\n", "flask --app app:create_app run"),
        ("ui.py", "import streamlit as st\nst.title('x')\n", "streamlit run ui.py"),
        ("ui.py", "import streamlit as st\nif __name__ == '__main__':\n    st.title('x')\n", "streamlit run ui.py"),
        ("llm.py", f"from ray import serve\n{FASTAPI}handle = serve.deployment(app).bind()\n", "serve run llm:handle"),
    ],
)  # fmt: skip
def test_an_app_without_a_command_line_is_started_by_its_server(project, path, source, command):
    entry = project.write(path, source).facts().entrypoint
    assert (entry.command, entry.file, entry.cwd) == (command, path, ".")


def test_an_app_is_served_from_the_folder_in_which_its_imports_are_found(project):
    project.write("backend/main.py", f"from db import engine\n{FASTAPI}").write(
        "backend/db.py", "engine = 1\n"
    )
    entry = project.facts().entrypoint
    assert (entry.command, entry.cwd) == ("uvicorn main:app", "backend")
    project.write("src/shop/api.py", f"from shop.db import engine\n{FASTAPI}").write(
        "src/shop/db.py", "engine = 1\n"
    )
    commands = {each.file: (each.command, each.cwd) for each in project.facts().candidates}
    assert commands["src/shop/api.py"] == ("uvicorn shop.api:app", "src")
    project.write("pkg/sub/__init__.py").write("pkg/__init__.py").write(
        "pkg/sub/app.py", f"from ..x import y\n{FASTAPI}"
    )
    commands = {each.file: (each.command, each.cwd) for each in project.facts().candidates}
    assert commands["pkg/sub/app.py"] == ("uvicorn pkg.sub.app:app", ".")


def test_an_app_that_starts_itself_is_a_script_and_a_socket_is_no_deployment(project):
    project.write("app.py", f"import uvicorn\n{FASTAPI}if __name__ == '__main__':\n    uvicorn.run(app)\n")
    assert project.facts().entrypoint.command == "python app.py"
    project.empty().write("link.py", "import socket\nbound = socket.socket().bind(('', 0))\n")
    assert "serve" not in {each.launcher for each in project.facts().candidates}
    project.empty().write("views.py", "import streamlit as st\ndef view():\n    st.title('x')\n").write(
        "a.py", "import views\nviews.view()\n"
    )
    assert "streamlit" not in {each.launcher for each in project.facts().candidates}
