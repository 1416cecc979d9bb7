"""A node of a random tree of processes: starts its children by many means, runs a marked line, and ends in some way.

usage: tree_node.py SPEC     (JSON, see test_process_trees.py; standard library only, but for gevent, joblib and pytest-xdist)
"""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time


def run(spec):
    """Do what `spec` says; return the exit code, or raise."""
    if spec["gevent"]:
        from gevent import monkey

        monkey.patch_all()
    time.sleep(spec["before"])
    for child in spec["children"]:
        code = START[child["start"]](child)
        print(spec["name"], "saw", child["name"], "end with", code, flush=True)
    if spec["hits"]:
        import tree_marked

        print(spec["name"], tree_marked.work(spec["hits"]), flush=True)
    print(spec["name"], "done", flush=True)
    time.sleep(spec["after"])
    if spec["end"] == "raise":
        raise ValueError(spec["name"])
    if spec["end"] == "_exit":
        os._exit(spec["code"])
    return spec["code"]


def _words(spec):
    return [sys.executable, os.path.abspath(__file__), json.dumps(spec)]


def _subprocess(spec):
    return subprocess.run(_words(spec), stderr=subprocess.DEVNULL).returncode


def _captured(spec):
    done = subprocess.run(_words(spec), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    sys.stdout.write(done.stdout.decode())
    return done.returncode


def _shell(spec):
    line = '"$0" "$@"; exit $?'
    return subprocess.run(["sh", "-c", line, *_words(spec)], stderr=subprocess.DEVNULL).returncode


def _exec(spec):
    text = "import json, os, sys; words = json.loads(sys.argv[1]); os.execv(words[0], words)"
    words = [sys.executable, "-c", text, json.dumps(_words(spec))]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode


def _in_thread(spec):
    found = []
    thread = threading.Thread(target=lambda: found.append(_subprocess(spec)))
    thread.start()
    thread.join()
    return found[0]


def _double_fork(spec):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            code = subprocess.call(_words(spec), stderr=subprocess.DEVNULL)
            os.write(writing, b"%d" % code)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as source:
        return int(source.read())


def _plain_fork(spec):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run(spec)
        except ValueError:
            pass
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def _worker(spec):
    sys.stderr = open(os.devnull, "w")
    sys.exit(run(spec))


def _multiprocessing(method):
    def start(spec):
        process = multiprocessing.get_context(method).Process(target=_worker, args=(spec,))
        process.start()
        process.join()
        return process.exitcode

    return start


def _pool(spec):
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(run, spec).result()
        except ValueError:
            return 1


def _joblib(spec):
    import joblib
    import tree_node
    from joblib.externals import loky

    try:
        return joblib.Parallel(n_jobs=2)(joblib.delayed(each)(spec) for each in (tree_node.run, str))[0]
    except ValueError:
        return 1
    finally:  # a node that ends by os._exit would leave the workers behind
        loky.get_reusable_executor().shutdown(wait=True)


def _xdist(spec):
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "tree_tests.py"]
    env = dict(os.environ, TREE_SPEC=json.dumps(spec))
    return subprocess.run(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


START = {
    "subprocess": _subprocess,
    "captured": _captured,
    "shell": _shell,
    "exec": _exec,
    "in a thread": _in_thread,
    "double fork": _double_fork,
    "fork": _plain_fork,
    "multiprocessing fork": _multiprocessing("fork"),
    "multiprocessing spawn": _multiprocessing("spawn"),
    "multiprocessing forkserver": _multiprocessing("forkserver"),
    "pool": _pool,
    "joblib": _joblib,
    "xdist": _xdist,
}

if __name__ == "__main__":
    sys.exit(run(json.loads(sys.argv[1])))
