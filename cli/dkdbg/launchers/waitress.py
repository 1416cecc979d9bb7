"""Waitress (waitress/runner.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import AppServer


class Waitress(AppServer):
    """waitress-serve; its options are written with `=`."""

    names = ("waitress-serve",)
    programs = ("waitress-serve",)
    modules = ("waitress",)
    port = 8080
    port_options = ("--listen",)
    value_options = ("--host", "--port", "--listen", "--threads", "--url-scheme", "--url-prefix", "--app")


LAUNCHER = Waitress()
