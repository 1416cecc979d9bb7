"""What only answers like an agent, in a hostile container: all that it hears is in its log. Run as a program there.

MODE, words with blanks between them:
    nonce           says that it wants a proof, and answers it with a wrong one
    refuse          wants the token itself
    orders          asks the editor for everything that an editor can do
    deep, odd, odd-list, drip, huge, html, headers    what /status says
    hang-up         closes each debug session at once
    flood           sends more than anybody reads
    garbage         sends what is no frame; deep-frame: JSON that is too deep
    name=TEXT       calls itself so
"""

import json
import os
import socket
import sys
import threading
import time

MODE = os.environ.get("MODE", "").split(" ")
NAME = next((each[5:] for each in MODE if each.startswith("name=")), "job")
RECORD = {
    "id": "job-1", "name": NAME, "pid": 1, "state": "waiting", "started": 1.0, "client": False, "adapter_up": True,
    "adapter_port": 4000, "host": "0.0.0.0", "port": 5678, "detail": "", "processes": [{"pid": 7, "name": NAME}],
}  # fmt: skip
#: What no editor may be made to do.
TASKS = {
    "preLaunchTask": "pwn", "postDebugTask": "pwn", "python": "/pwn", "debugAdapterPath": "/pwn", "program": "/pwn",
    "env": {"LD_PRELOAD": "/pwn"}, "console": "externalTerminal", "connect": {"host": "198.51.100.1", "port": 1},
    "type": "pwn", "request": "launch", "pathMappings": [{"localRoot": "/pwn", "remoteRoot": "/"}],
    "name": "${command:pwn}\x1b]0;pwn\x07\u202e" + "x" * 5000, "serverReadyAction": {"action": "openExternally"},
    "dkdbgRole": "take-over",
}  # fmt: skip


def log(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def frame(**message):
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def event(name, /, **body):
    return frame(seq=0, type="event", event=name, body=body)


def answer(request, success=True, **body):
    return frame(
        seq=0, type="response", request_seq=request["seq"], command=request["command"], success=success, message="dkdbg: the token is missing: put it into dkdbgToken", body=body,
    )  # fmt: skip


def orders(number=7):
    """Every request and event that could make an editor act."""

    def ask(command, **arguments):
        return frame(seq=900, type="request", command=command, arguments=arguments)

    yield ask("runInTerminal", kind="external", title="x", cwd="/", args=["touch", "/pwned"])
    yield ask("startDebugging", request="launch", configuration={**TASKS, "subProcessId": number})
    yield ask("startDebugging", request="attach", configuration={**TASKS, "subProcessId": number})
    yield ask("startDebugging", configuration={**TASKS, "subProcessId": number})
    yield ask("pwn", anything=1)
    yield event("debugpyAttach", **dict(TASKS, subProcessId=number))
    yield event("debugpySockets", sockets=[{"host": "198.51.100.1", "port": 1, "internal": False}])
    yield event("debugpyWaitingForServer", host="198.51.100.1", port=1)
    yield event("capabilities", capabilities={"supportsRestartRequest": True})
    yield event("memory", memoryReference="pwn", offset=0, count=1)
    yield event("loadedSource", reason="new", source={"path": "//198.51.100.1/pwn"})
    yield event("pwn", anything=1)
    source = {"name": "s", "path": "\\\\198.51.100.1\\pwn", "adapterData": {"pwn": 1}, "sources": []}
    yield event(
        "output", category="stdout", output="spoken", source=source, data={"pwn": 1}, variablesReference=3
    )
    yield event("output", category="telemetry", output="pwn", data={"pwn": 1})
    # A second `type` in the same object: readers differ in which one they take.
    body = b'{"seq":1,"type":"event","event":"output","type":"request","command":"runInTerminal","body":{"output":"x"}}'
    yield b"Content-Length: %d\r\n\r\n" % len(body) + body
    deep = b'{"seq":1,"type":"event","event":"output","body":{"output":' + b"[" * 60000
    yield b"Content-Length: %d\r\n\r\n" % len(deep) + deep


def http(sock, request):
    log("HTTP", request)
    if "drip" in MODE:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n")
        while True:
            sock.sendall(b" ")
            time.sleep(0.3)
    if "headers" in MODE:
        sock.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            sock.sendall(b"X: y\r\n")
            time.sleep(0.3)
    if "huge" in MODE:
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            sock.sendall(b"1," * 50000)
    body = json.dumps(
        {key: value for key, value in RECORD.items() if "nonce" not in MODE or key != "processes"}
    ).encode()
    if "deep" in MODE:
        body = b'{"id":"a","state":' + b"[" * 200000
    if "odd" in MODE:
        body = json.dumps(dict(RECORD, state=["waiting"], pid={}, started="x")).encode()
    if "odd-list" in MODE:
        body = json.dumps(dict(RECORD, processes=[{"pid": "x", "name": []}, 7])).encode()
    if "html" in MODE:
        body = b"<html>\x1b]0;pwn\x07</html>"
    if "nonce" in MODE and b"dkdbg-nonce" in request.lower():
        sock.sendall(b"HTTP/1.1 401 x\r\nDkdbg-Nonce: " + b"ab" * 32 + b"\r\nContent-Length: 0\r\n\r\n")
        log("HTTP", sock.recv(65536))
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)


def debug(sock, data):
    if "hang-up" in MODE:
        return
    if "garbage" in MODE:
        sock.sendall(b"\x00" * 5000)
        return
    attach = None
    while True:
        while b"\r\n\r\n" in data:
            head, _, rest = data.partition(b"\r\n\r\n")
            length = int(head.rpartition(b":")[2])
            if len(rest) < length:
                break
            request, data = json.loads(rest[:length]), rest[length:]
            log("DAP", json.dumps(request))
            command = request.get("command")
            if request.get("type") != "request":
                continue
            if command == "initialize":
                sock.sendall(answer(request, **({"dkdbgNonce": "ab" * 32} if "nonce" in MODE else {})))
            elif command == "dkdbgProve":
                sock.sendall(answer(request, dkdbgProof="cd" * 32))
            elif command == "attach" and "refuse" in MODE:
                sock.sendall(
                    answer(
                        request,
                        success=False,
                        error={"id": 1, "format": "x", "url": "http://pwn", "showUser": True},
                    )
                )
            elif command == "attach":
                attach = request
                sock.sendall(event("initialized"))
            elif command == "configurationDone":
                sock.sendall(answer(request) + answer(attach))
                if "orders" in MODE:
                    for each in orders():
                        sock.sendall(each)
                    sock.sendall(event("output", category="stdout", output="all is asked"))
                if "deep-frame" in MODE:
                    deep = b"[" * 4_000_000
                    while True:
                        sock.sendall(b"Content-Length: %d\r\n\r\n" % len(deep) + deep)
                while "flood" in MODE:
                    sock.sendall(event("output", category="stdout", output="x" * 100_000))
            elif command == "disconnect":
                sock.sendall(answer(request))
                return
            else:
                sock.sendall(answer(request, breakpoints=[], threads=[]))
        more = sock.recv(65536)
        if not more:
            return
        data += more


def serve(sock):
    with sock:
        try:
            first = sock.recv(65536)
            (http if first[:4] in (b"GET ", b"HEAD") else debug)(sock, first)
        except OSError as error:
            log("gone", error)


def main(host, port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(50)
    log("listening", listener.getsockname()[1])
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "0.0.0.0", int(sys.argv[2]) if len(sys.argv) > 2 else 5678)
