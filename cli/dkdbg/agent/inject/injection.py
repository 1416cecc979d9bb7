"""Makes a running CPython older than 3.14 execute Python source, by ptrace. For Linux on x86-64.

Python 3.14 has `sys.remote_exec` for this (PEP 768). In older versions only `Py_AddPendingCall` may be called at any
moment: it queues a function, which the main thread calls before its next bytecode. So this module stops the process's
main thread for less than a millisecond, makes it call `Py_AddPendingCall` with `PyRun_SimpleString` and the address of
source text in its own memory, and restores all its registers. No Python code runs meanwhile, so it does not matter
which locks the process holds. Signals are blocked until the end, because a handler would start with the registers of
this call. gdb's `call` does the same, but images have no gdb.

PTRACE_SEIZE, as opposed to PTRACE_ATTACH, sends no signal that the program could notice; see ptrace(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

#: Timeout for the process to stop, and for a call in it to return. Both normally take microseconds.
TIMEOUT_S = 10.0
#: Maximum attempts: a thread that was stopped inside `Py_AddPendingCall` itself has to be continued and stopped again.
MAX_ATTEMPTS = 5
_CONT, _GETREGS, _SETREGS, _DETACH, _STEP = 7, 12, 13, 17, 9
_GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = 0x4204, 0x4205, 0x4206, 0x4207
_GETSIGMASK, _SETSIGMASK = 0x420A, 0x420B
#: Register set of the vector registers (NT_X86_XSTATE), which the call may change too, and a buffer size in bytes that
#: is enough for it: 2.5 to 11 kB.
_XSTATE, _XSTATE_SIZE = 0x202, 1 << 14
_WALL = 0x40000000
_REGISTERS = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax",
    "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip
#: mmap(2): system call number, page size, and the flags for a private readable and writable page.
_MMAP, _PAGE, _READ_WRITE, _ANONYMOUS = 9, 4096, 3, 0x22
_NO_SYSCALL = (1 << 64) - 1
#: Signals that show the end of a call in the process, which faults when it returns. They stay unblocked: at a fault
#: whose signal is blocked, the kernel would reset the program's handler for it.
_FAULTS = (signal.SIGSEGV, signal.SIGTRAP, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_ALL_BUT_FAULTS = (1 << 64) - 1 - sum(1 << (number - 1) for number in _FAULTS)
_ADD, _RUN = "Py_AddPendingCall", "PyRun_SimpleString"


class InjectionError(Exception):
    """The source cannot be injected; the message explains why. The process continues unchanged."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def run(pid: int, text: str) -> None:
    """Make the main thread of a process execute `text` at its next bytecode.

    Args:
        text: Python source, which must not raise: a SystemExit would end the program.

    Raises:
        InjectionError: the system forbids it, or the process is not a supported CPython.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        raise InjectionError(
            "attaching to a Python before 3.14 requires x86-64 Linux, not %s" % platform.machine()
        )
    data = text.encode() + b"\0"
    if len(data) > _PAGE:
        raise InjectionError("the code to inject is too long")
    try:
        found = _functions(pid)
    except OSError as error:
        raise InjectionError(_denied(pid, error)) from error
    try:
        if not any(_queue(pid, found, data) for _ in range(MAX_ATTEMPTS)):
            raise InjectionError("its queue of pending calls (Py_AddPendingCall) is full")
    except (ProcessLookupError, ChildProcessError) as error:
        raise InjectionError("process %d has ended, or executed another program" % pid) from error


def _queue(pid: int, functions: Dict[str, int], data: bytes) -> bool:
    with _Stopped(pid) as stopped:
        page = stopped.syscall(_MMAP, 0, _PAGE, _READ_WRITE, _ANONYMOUS, _NO_SYSCALL, 0)
        if page >= 1 << 47:
            raise InjectionError("the process cannot allocate memory")
        stopped.write(page, data)
        if stopped.call(functions[_ADD], functions[_RUN], page) == 0:
            return True
    time.sleep(0.05)
    return False


class _Stopped:
    """Context manager: ptrace stops a process's main thread, and restores its registers at the end."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.restype = ctypes.c_long
        self._libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._mask: Optional[ctypes.c_uint64] = None

    def __enter__(self) -> _Stopped:  # noqa: PYI034 - `Self` needs Python 3.11
        try:
            self._ask(_SEIZE)
        except OSError as error:
            raise InjectionError(_denied(self._pid, error)) from error
        try:
            self._ask(_INTERRUPT)
            while number := self._wait():  # stopped by a signal before the interrupt: deliver it first
                self._ask(_CONT, 0, number)
            self._registers = self._get()
            self._vectors = self._get_vectors()
            mask, blocked = ctypes.c_uint64(), ctypes.c_uint64(_ALL_BUT_FAULTS)
            self._ask(_GETSIGMASK, 8, ctypes.addressof(mask))
            self._mask = mask
            self._ask(_SETSIGMASK, 8, ctypes.addressof(blocked))
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._set(self._registers)
            vector = _Vector(ctypes.addressof(self._vectors), len(self._vectors))
            self._ask(_SETREGSET, _XSTATE, ctypes.addressof(vector))
        finally:
            self._let_go()

    def write(self, address: int, data: bytes) -> None:
        """Write into the process's memory."""
        with open("/proc/%d/mem" % self._pid, "r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(data)

    def syscall(self, number: int, *arguments: int) -> int:
        """Execute a system call in the process."""
        names = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
        changed = dict(self._registers, rax=number, orig_rax=_NO_SYSCALL, rip=self._instruction())
        self._set(dict(changed, **dict(zip(names, arguments))))
        if self._run(_STEP) != signal.SIGTRAP:
            raise InjectionError("process %d got a signal while it was stopped: try again" % self._pid)
        return self._get()["rax"]

    def call(self, function: int, *arguments: int) -> int:
        """Call a C function in the process that returns an int; return its result, or -1 if it did not return.

        Its return address is 0, so that its return faults, which stops the process.
        """
        stack = ((self._registers["rsp"] - 1024) & ~15) - 8
        self.write(stack, struct.pack("<Q", 0))
        changed = dict(self._registers, rax=0, orig_rax=_NO_SYSCALL, rip=function, rsp=stack)
        self._set(dict(changed, **dict(zip(("rdi", "rsi"), arguments))))
        self._run(_CONT)
        after = self._get()
        return after["rax"] & 0xFFFFFFFF if after["rip"] == 0 else -1

    def _instruction(self) -> int:
        """Return the address of a `syscall` instruction, found in the vDSO that the kernel maps into each process."""
        for start, end, _, path in _maps(self._pid):
            if path == "[vdso]":
                with open("/proc/%d/mem" % self._pid, "rb", buffering=0) as memory:
                    memory.seek(start)
                    at = memory.read(end - start).find(b"\x0f\x05")
                if at >= 0:
                    return start + at
        raise InjectionError("the process has no vdso")

    def _run(self, request: int) -> int:
        """Resume the process with a ptrace request until it faults; return the fault's signal, or 0 at the timeout."""
        number = 0
        while number not in _FAULTS:
            self._ask(request, 0, number)  # deliver SIGSTOP, which cannot be blocked; it takes effect later
            try:
                number = self._wait()
            except TimeoutError:
                self._ask(_INTERRUPT)
                self._wait()
                return 0
        return number

    def _wait(self) -> int:
        """Wait until the process stops; return the signal that is about to be delivered, or 0 for none."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            pid, status = os.waitpid(self._pid, _WALL | os.WNOHANG)
            if pid == 0:
                if time.monotonic() > end:
                    raise TimeoutError("process %d does not stop" % self._pid)
                time.sleep(0.0005)
            elif not os.WIFSTOPPED(status):
                raise InjectionError("process %d has ended" % self._pid)
            else:  # a status above 16 bits is PTRACE_EVENT_STOP: by PTRACE_INTERRUPT, or by SIGSTOP or SIGCONT
                return 0 if status >> 16 else os.WSTOPSIG(status)

    def _let_go(self) -> None:
        # A process that never stops is released by the kernel when the agent ends.
        with contextlib.suppress(OSError, InjectionError):
            try:
                self._release()
            except OSError:  # not stopped yet, or ended: then the tracer must reap it before its parent can
                self._wait()
                self._release()

    def _release(self) -> None:
        if self._mask is not None:
            self._ask(_SETSIGMASK, 8, ctypes.addressof(self._mask))
        self._ask(_DETACH)

    def _get(self) -> Dict[str, int]:
        values = (ctypes.c_uint64 * len(_REGISTERS))()
        self._ask(_GETREGS, 0, ctypes.addressof(values))
        return dict(zip(_REGISTERS, values))

    def _set(self, registers: Dict[str, int]) -> None:
        values = (ctypes.c_uint64 * len(_REGISTERS))(*[registers[name] for name in _REGISTERS])
        self._ask(_SETREGS, 0, ctypes.addressof(values))

    def _get_vectors(self) -> ctypes.Array[ctypes.c_char]:
        room = ctypes.create_string_buffer(_XSTATE_SIZE)
        vector = _Vector(ctypes.addressof(room), len(room))
        self._ask(_GETREGSET, _XSTATE, ctypes.addressof(vector))
        whole = ctypes.create_string_buffer(vector.length)
        ctypes.memmove(whole, room, vector.length)
        return whole

    def _ask(self, request: int, address: int = 0, data: int = 0) -> None:
        ctypes.set_errno(0)
        if self._libc.ptrace(request, self._pid, address, data) == -1 and ctypes.get_errno():
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _functions(pid: int) -> Dict[str, int]:
    """Return the addresses of Py_AddPendingCall and PyRun_SimpleString, in the executable or libpython.

    Raises:
        OSError: the process may not be read.
        InjectionError: it does not export these functions.
    """
    seen: Dict[str, Tuple[int, int]] = {}
    for start, end, offset, path in _maps(pid):
        if offset == 0 and path.startswith("/"):
            seen.setdefault(path, (start, end))
    program = os.readlink("/proc/%d/exe" % pid)
    likely = [each for each in seen if os.path.basename(each).startswith("libpython3")]
    unread = ""
    for path in [*likely, program]:
        file = "/proc/%d/exe" % pid if path == program else path
        if file.endswith(" (deleted)"):  # replaced by an update; only root may open the former file
            file = "/proc/%d/map_files/%x-%x" % (pid, *seen[path])
        try:
            with open(file, "rb") as source:
                found = _symbols(source.read(), (_ADD, _RUN))
        except (OSError, struct.error, IndexError):
            unread = unread or path
            continue
        if len(found) == 3 and path in seen:
            base = seen[path][0] if found["dynamic"] else 0
            return {name: base + found[name] for name in (_ADD, _RUN)}
    if unread:
        raise InjectionError(
            "cannot read %s: if it was replaced while the program was running, start the program again"
            % unread
        )
    raise InjectionError("its executable is not a CPython that exports %s" % _ADD)


def _symbols(data: bytes, wanted: Tuple[str, ...]) -> Dict[str, int]:
    """Return values of an ELF file's exported symbols, and `dynamic`: 1 if they are relative to the load address."""
    if data[:5] != b"\x7fELF\x02" or len(data) < 64 or struct.unpack_from("<H", data, 18)[0] != 62:
        return {}
    kind, sections = struct.unpack_from("<H", data, 16)[0], struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    found = {"dynamic": int(kind == 3)}
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + each * size) for each in range(count)]
    for header in headers:
        if header[1] != 11:  # SHT_DYNSYM
            continue
        names = headers[header[6]]
        for at in range(header[4], header[4] + header[5], 24):
            name, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if index == 0:  # undefined: the symbol is in another file
                continue
            start = names[4] + name
            for each in wanted:
                if data[start : start + len(each) + 1] == each.encode() + b"\0":
                    found[each] = value
    return found


def _maps(pid: int) -> List[Tuple[int, int, int, str]]:
    """Return a process's memory mappings: start and end address, offset in the mapped file, the file's path."""
    found = []
    with open("/proc/%d/maps" % pid) as source:
        for line in source:
            fields = line.split(None, 5)
            start, _, end = fields[0].partition("-")
            path = fields[5].rstrip("\n") if len(fields) > 5 else ""
            found.append((int(start, 16), int(end, 16), int(fields[2], 16), path))
    return found


def _denied(pid: int, error: OSError) -> str:
    if error.errno == errno.ESRCH:
        return "there is no process %d" % pid
    tracer = "0"
    with contextlib.suppress(OSError), open("/proc/%d/status" % pid) as source:
        tracer = next((line.split()[1] for line in source if line.startswith("TracerPid:")), "0")
    if tracer != "0":
        return "process %d is already traced by process %s" % (pid, tracer)
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as source:
            scope = source.read().strip()
    except OSError:
        scope = "0"
    if scope != "0":
        return "this system forbids attaching to a process (kernel.yama.ptrace_scope is %s)" % scope
    return "this system forbids attaching to it (ptrace: %s)" % (error.strerror or error)
