"""The verbs of the first minutes: demo, completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.verbs.options.parser import Verbs


def add_demo(verbs: Verbs) -> None:
    """The whole path on an example."""
    demo = verbs.add_parser("demo", help="show the whole path on an example, in a temporary copy")
    demo.add_argument(
        "--on",
        choices=("auto", "compose", "local"),
        default="auto",
        help="where to run it (auto: compose if an engine answers)",
    )
    demo.add_argument("--json", action="store_true", help="one JSON object at the end")
    demo.set_defaults(call=_demo)


def _demo(options: argparse.Namespace, _root: Path) -> int:
    from dkdbg.verbs.demo import demo

    return demo(target=options.on, as_json=options.json)


def add_completion(verbs: Verbs) -> None:
    """A shell's completion."""
    completion = verbs.add_parser("completion", help="print a script for shell completion")
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish"), help='eval "$(dkdbg completion bash)", ... fish | source'
    )
    completion.set_defaults(call=_completion)


def _completion(options: argparse.Namespace, _root: Path) -> int:
    from dkdbg.verbs.completion import completion

    return completion(options.shell)
