"""Tell the role of a program or task from its name."""

from __future__ import annotations

import re

from dkdbg.setup.detect.files import parent

_ROLES = (
    ("tool", re.compile(
        r"(?:prepare|preprocess|preproc|process|download|convert|conversion|setup|install|dataset|datasets|data|make|build|"
        r"collect|plot|vis|visualize|visualizer|export|merge|extract|crawl|scrape|config|configs|util|utils|split|clean|"
        r"benchmark|bench|profile|check|verify|migrate|seed|generate_data|tokenize|tokenizer|tok|upload|publish|release|"
        r"resize|annotate|label|stats|metrics|calc|version|docs|cache|encode|quantize|lint|format)s?"
    )),
    ("train", re.compile(r"train|training|trainer|finetune|finetuning|tune|tuning|pretrain|pretraining|sft|dpo|grpo|ppo|rlhf|fit|learn|distill")),
    ("infer", re.compile(r"eval|evaluate|evaluation|test|sample|sampling|generate|gen|inference|infer|predict|prediction|detect|score|validate|val|search|analyze|rollout|play|enjoy|simulate|render|interpolate")),
    ("app", re.compile(r"app|server|serve|serving|api|webui|ui|gui|web|wsgi|asgi|manage|bot|service|backend|worker|webservice|webapp|gateway|chatbot|webserver|runserver|webapi")),
    ("demo", re.compile(r"demo|gradio|streamlit|chat|playground|example|client|cli|repl")),
    ("main", re.compile(r"main|__main__|run|start|launch|launcher|entry|entrypoint|runner|index")),
)  # fmt: skip


def role_of(path: str) -> str:
    """Return the role that a program's name suggests: `train`, `app`, `main`, `infer`, `demo`, `tool` or `other`."""
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0] if path.endswith(".py") else path.rsplit(".", 1)[-1]
    if stem == "__main__" and "/" in path:
        stem = parent(path).rsplit("/", 1)[-1] + "_main"
    name_parts = [
        word for word in re.split(r"[_\-.\d]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", stem).lower()) if word
    ]
    roles = [
        next((role for role, pattern in _ROLES if pattern.fullmatch(word)), "other") for word in name_parts
    ]
    # "train" counts anywhere (train_dataset, main_pretrain); other roles only in the first or last word, the verb.
    if "train" in roles:
        return "train"
    if re.fullmatch(r"(?:run_\w+|main_\w+)", stem.lower()) and "infer" not in roles and "tool" not in roles:
        return "main"
    for role in ("tool", "infer", "app", "demo", "main"):
        if role in roles[:1]:
            return role
    return next((role for role in ("app", "demo", "infer", "main", "tool") if role in roles[-1:]), "other")
