"""MLflow: `mlflow server`, `mlflow ui`, `mlflow models serve`; `mlflow run` is a job."""

from __future__ import annotations

from dkdbg.launchers.launcher import MONITOR, Launcher


class MLflow(Launcher):
    """mlflow's page beside a training, or its model server."""

    names = ("mlflow",)
    programs = ("mlflow",)
    modules = ("mlflow",)
    role = MONITOR
    verbs = ("server", "ui", "serve")
    is_program = False
    port = 5000
    port_options = ("-p",)
    side_ports = (5000,)


LAUNCHER = MLflow()
