"""Facts of small repositories, and the plan that is made of them."""

from pathlib import Path

from dkdbg.core.config import Config
from dkdbg.core.facts import DockerfileFact, PythonFact, RepoFacts, ServiceFact
from dkdbg.setup.plan.project import plan_project


def facts(**values) -> RepoFacts:
    python = PythonFact(version="3.11", source="test")
    return RepoFacts(
        **{"root": Path("/r"), "name": "r", "python": python, "package_manager": "none"} | values
    )


def plan(config: Config | None = None, **values):
    return plan_project(facts(**values), config or Config())


def service(command=("python", "app.py"), **values) -> ServiceFact:
    return ServiceFact(**{"name": "web", "file": "compose.yaml", "context": "."} | values, command=command)


def of_service(one: ServiceFact, config: Config | None = None, **values):
    return plan(config, **{"compose_files": (one.file,), "services": (one,), "service": one} | values)


def dockerfile(*copies: tuple[str, str], cmd=("python", "a.py"), **values) -> DockerfileFact:
    """A Dockerfile that copies these folders of the repository, from local to remote."""
    given = {"path": "Dockerfile", "base": "python:3.11", "copies": copies, "code": copies, "cmd": cmd}
    return DockerfileFact(**given | values)
