"""Workers chosen by name: the rules and the cases of NeMo RL's NRL_NSYS_WORKER_PATTERNS (docs/nsys-profiling.md there)."""

import fnmatch

import pytest

from dkdbg.agent.inprocess.profilers import profiling, tools

#: Its worker names.
DTENSOR, DTENSOR_V2, MEGATRON = "dtensor_policy_worker", "dtensor_policy_worker_v2", "megatron_policy_worker"
VLLM, ASYNC_VLLM = "vllm_generation_worker", "vllm_async_generation_worker"
SGLANG = "sglang_generation_worker"


@pytest.mark.parametrize(
    ("text", "worker", "pattern"),
    [
        ("*policy*", DTENSOR, "*policy*"),
        ("*policy*", VLLM, ""),
        ("*policy*,*vllm*", DTENSOR, "*policy*"),
        ("*policy*,*vllm*", ASYNC_VLLM, "*vllm*"),
        ("*policy*,*vllm*", SGLANG, ""),
        ("dtensor_policy_worker,vllm_generation_worker", VLLM, "vllm_generation_worker"),
        ("dtensor_policy_worker,vllm_generation_worker", DTENSOR_V2, ""),
        (f"{MEGATRON},{VLLM},{ASYNC_VLLM}", ASYNC_VLLM, ASYNC_VLLM),
        (" *policy* , *vllm* ", VLLM, "*vllm*"),
        ("\t*policy*\n", DTENSOR, "*policy*"),
        (",, *vllm*,,", VLLM, "*vllm*"),
        ("", DTENSOR, ""),
        (" , ,", DTENSOR, ""),
        ("*", SGLANG, "*"),
        ("*worker,*policy*", DTENSOR, "*worker"),
        ("policy", DTENSOR, ""),
        ("*POLICY*", DTENSOR, ""),
        ("DTensorPolicyWorkerV2", DTENSOR_V2, ""),
        ("?tensor_policy_worker", DTENSOR, "?tensor_policy_worker"),
        ("dtensor_policy_worker_v[12]", DTENSOR_V2, "dtensor_policy_worker_v[12]"),
        ("[!dm]*", DTENSOR, ""),
        ("[!dm]*", VLLM, "[!dm]*"),
        ("*_worker_v?", DTENSOR_V2, "*_worker_v?"),
        ("[*", "[star", "[*"),
    ],
)
def test_the_first_pattern_that_matches_all_of_a_name_counts(text, worker, pattern):
    assert tools.matched([worker], tools.parse_patterns(text)) == pattern
    theirs = [each.strip() for each in text.split(",") if each.strip()]
    first = next((each for each in theirs if fnmatch.fnmatch(worker, each)), "")
    assert first == pattern, "as NeMo RL does it"


@pytest.mark.parametrize(
    ("words", "rank", "worker", "others"),
    [
        (["python", "train.py", "--lr", "1"], None, "train", {"train.py"}),
        (["python", "-u", "-X", "dev", "/code/rl.py"], 3, "rl-rank3", {"rl", "rank3"}),
        (["python", "-m", "nemo.train", "x.py"], 0, "nemo.train-rank0", {"nemo.train", "rank0"}),
        (["python", "-c", "pass"], None, "python", set()),
    ],
)
def test_what_a_process_is_called(words, rank, worker, others):
    known = profiling.names(words, {}, rank)
    assert known[0] == worker
    assert others <= set(known)
    assert profiling.names(words, {"ROLE_NAME": "policy"}, rank)[-1] == "policy"


def test_what_the_user_says_of_nsys_is_said_once():
    tool = {"path": "/usr/bin/nsys", "options": ["--trace=osrt", "--capture-range=cudaProfilerApi"]}
    words = tools.nsys_line(tool, "/p/100%/worker")
    assert words[:2] == ["/usr/bin/nsys", "profile"]
    assert "cuda,nvtx" not in words
    assert words[-2:] == ["-o", "/p/100%%/worker_%p"]
    assert "none" in words
