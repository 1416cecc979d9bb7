"""All internals of debugpy and pydevd that dkdbg uses or replaces, and the versions that they belong to.

Each 1.8 from OLDEST to below BELOW has these names, which tests/agent/test_privates.py looks up in released
versions. Other versions:

- A 1.8 that is newer than NEWEST_TRIED and has every name is used like any other.
- One that lacks a name is not touched: the agent or the process reports the missing name, and is not
    debugged.
- Below and above nothing is looked up, and the supported versions are reported.

A program may have imported its own debugpy; the same holds for that.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

    Names = Dict[str, Tuple[Tuple[str, str, str], ...]]

#: debugpy's versions: from, below, and the newest that all tests have run with.
OLDEST = (1, 8, 16)
BELOW = (1, 9)
NEWEST_TRIED = (1, 8, 22)

# By module, each: name in it (`function:name` for an attribute that the function sets), file that uses it, and
# purpose.

#: Names used in the user's process.
PROGRAM: Names = {
    "debugpy.server.api": (
        ("ensure_logging", "join", "the logs that DEBUGPY_LOG_DIR asks for"),
        ("listen", "listening", "a program that calls it while it is debugged"),
        ("_starts_debugging", "listening", "check the address"),
        ("_adapter_process", "listening", "say where the program's own listens"),
    ),
    "pydevd": (
        ("settrace", "join", "connect as a child of the root session stub; on_demand stops with it"),
        ("_locked_settrace:access_token", "join", "show the adapter the session's token"),
        ("get_global_debugger", "session", "is this process connected"),
        ("SetupHolder.setup", "join", "a forked child is not the child of its parent's debugger"),
        ("PyDB.__init__:pydb_disposed", "join", "has the adapter closed the connection"),
        ("PyDB.__init__:trace_dispatch", "untrace", "trace the main thread without pydevd's library"),
        ("PyDB.enable_tracing", "untrace", "no trace function for new threads without an editor"),
        ("PyDB.on_disconnect", "untrace", "the editor has left: remove the trace functions"),
        ("PyDB.dispose_and_kill_all_pydevd_threads", "untrace", "the adapter has gone: the same"),
        ("PyDB.set_tracing_for_untraced_contexts", "untrace", "give running frames theirs back"),
        ("PyDB.connect", "connection", "connect to a Unix socket"),
        ("PyDB.initialize_network", "connection", "a high descriptor for the connection"),
        ("PyDB.__init__:_client_socket", "connection", "the connection, to close it after a fork"),
        ("PyDB.__init__:reader", "connection", "wait for the end of the thread that reads"),
        ("CheckAliveThread._on_run", "connection", "end when the debugger has ended before it began"),
        ("PyDB.has_user_threads_alive", "shutdown", "is this end of the session that of the program"),
        ("PyDB._PyDB__wait_for_threads_to_finish", "shutdown", "its threads wait for each other"),
        ("PyDB.__init__:created_pydb_daemon_threads", "shutdown", "the list of them"),
        ("PyDB.__init__:check_alive_thread", "shutdown", "the one that ends the others"),
        ("PyDB.__init__:reader", "shutdown", "the one that waits for the adapter"),
        ("CheckAliveThread.__init__:_wait_event", "shutdown", "wake it when the program has ended"),
        ("time", "shutdown", "do not sleep while it connects"),
        ("PyDB.set_suspend", "suspending", "a stop is counted and its thread marked in one"),
        ("PyDB.__init__:_threads_suspended_single_notification", "suspending", "which stops have been reported"),
        ("AbstractSingleNotificationBehavior.on_thread_suspend", "suspending", "when a thread was stopped"),
        ("AbstractSingleNotificationBehavior.on_thread_resume", "suspending", "tell that threads run"),
        ("AbstractSingleNotificationBehavior.__init__:_lock", "suspending", "held while stops are reported"),
        ("AbstractSingleNotificationBehavior.__init__:_suspend_time_request", "suspending", "how many stops there were"),
        ("AbstractSingleNotificationBehavior.__init__:_last_suspend_notification_time", "suspending", "the last reported one"),
        ("AbstractSingleNotificationBehavior.__init__:_last_resume_notification_time", "suspending", "whether its end was reported"),
        ("AbstractSingleNotificationBehavior.__init__:_suspended_thread_id_to_thread", "suspending", "which threads are stopped"),
        ("ThreadsSuspendedSingleNotification.send_resume_notification", "suspending", "tell that threads run"),
        ("ThreadsSuspendedSingleNotification.__init__:_callbacks", "suspending", "who waits for an answer to continue"),
        ("ThreadsSuspendedSingleNotification.__init__:_callbacks_lock", "suspending", "the same"),
        ("PyDB.post_internal_command", "suspending", "wake a held thread after its command"),
        ("PyDB.__init__:_thread_events", "suspending", "what held threads sleep on"),
        ("PyDB.do_stop_on_unhandled_exception", "uncaught", "show an uncaught exception once"),
        ("PyDB.__init__:fix_top_level_trace_and_get_trace_func", "uncaught", "look for the outermost frame again"),
        ("PyDB.is_attached", "answers", "is an editor there"),
        ("PyDB.__init__:breakpoints", "missed_code", "which lines have breakpoints"),
        ("PyDB.__init__:writer", "session", "print into the editor's console"),
        ("PyDB.__init__:cmd_factory", "session", "make that message"),
        ("_is_attached", "join", "has the editor configured this process"),
        ("PyDB.enable_tracing", "own_tracer", "trace this thread again"),
        ("PyDB.set_trace_for_frame_and_parents", "own_tracer", "and its running frames"),
        ("PyDB.enable_output_redirection", "output", "the editor wants to see what is printed"),
    ),
    "_pydevd_bundle.pydevd_api": (
        ("resume_threads", "suspending", "resume between the stops of others"),
        ("PyDevdAPI.request_resume_thread", "suspending", "answer continue"),
        ("PyDevdAPI.run", "join", "the editor has set its breakpoints"),
        ("PyDevdAPI.request_disconnect", "suspending", "wake threads it lets go"),
        ("PyDevdAPI.request_resume_thread", "suspending", "wake threads that may run on"),
        ("PyDevdAPI.add_breakpoint", "missed_code", "look at each new breakpoint"),
    ),
    "_pydevd_bundle.pydevd_comm": (
        ("resume_threads", "suspending", "the same for steps"),
        ("WriterThread.__init__:_cmd_queue", "output", "the queue of messages"),
        ("WriterThread.empty", "output", "is all sent, at the program's end"),
    ),
    "_pydevd_bundle.pydevd_thread_lifecycle": (
        ("STATE_SUSPEND", "suspending", "has another thread stopped"),
        ("set_additional_thread_info", "suspending", "the same"),
        ("internal_run_thread", "join", "forget it"),
    ),
    "_pydevd_bundle.pydevd_trace_dispatch": (
        ("USING_CYTHON", "uncaught", "compiled parts look by themselves"),
    ),
    "_pydevd_bundle.pydevd_trace_dispatch_regular": (
        ("is_unhandled_exception", "uncaught", "know it instead of guessing"),
    ),
    "_pydevd_bundle.pydevd_frame_utils": (
        ("create_frames_list_from_traceback", "uncaught", "leave out a note on the outermost frame"),
        ("EXCEPTION_TYPE_UNHANDLED", "uncaught", "of which exceptions"),
    ),
    "_pydevd_bundle.pydevd_net_command_factory_json": (
        ("NetCommandFactoryJson.make_console_message", "session", "text"),
        ("NetCommandFactoryJson.make_io_message", "output", "text of stdout or stderr"),
    ),
    "_pydevd_bundle.pydevd_additional_thread_info": (
        ("set_additional_thread_info", "join", "a thread's former stop"),
    ),
    "_pydevd_bundle.pydevd_constants": (
        ("PYDEVD_USE_SYS_MONITORING", "join", "how this Python is traced"),
    ),
    "_pydev_bundle.pydev_monkey": (
        ("_on_forked_process", "join", "drop the debugger in a forked child"),
    ),
    "_pydevd_sys_monitoring.pydevd_sys_monitoring": (
        ("stop_monitoring", "join", "the same from Python 3.12 on"),
        ("enable_code_tracing", "missed_code", "of a thread that threading does not know"),
    ),
    "pydevd_tracing": (
        ("_load_python_helper_lib", "join", "keep it quiet where its library does not load"),
        ("_internal_set_trace", "own_tracer", "its stand-in for sys.settrace, to see who calls"),
        ("TracingFunctionHolder._original_tracing", "own_tracer", "the true one"),
        ("set_trace_to_threads", "untrace", "trace every thread again"),
        ("replace_sys_set_trace_func", "untrace", "its stand-in for sys.settrace"),
        ("restore_sys_set_trace_func", "untrace", "without it, pdb can trace"),
    ),
    "_pydevd_bundle.pydevd_json_debug_options": (
        ("DebugOptions.update_from_args", "output", "on, where an editor says nothing"),
    ),
    "_pydev_bundle._pydev_saved_modules": (
        ("_queue", "output", "the class of that queue"),
    ),
    "_pydevd_bundle.pydevd_extension_utils": (
        ("extensions_of_type", "array_views", "its extensions, to stand before them"),
    ),
    "_pydevd_bundle.pydevd_extension_api": (
        ("StrPresentationProvider", "array_views", "the line for a tensor"),
        ("TypeResolveProvider", "array_views", "what is below it"),
    ),
    "_pydevd_bundle.pydevd_resolver": (
        ("defaultResolver", "array_views", "its attributes, as ever"),
    ),
    "pydevd_file_utils": (
        ("canonical_normalized_path", "missed_code", "file names as breakpoints have them"),
        ("_abs_and_canonical_path", "file_names", "`//train.py` is the file `/train.py`"),
        ("absolute_path", "file_names", "a path as pydevd hands it out"),
        ("setup_client_server_paths", "file_names", "files are mapped before folders"),
        ("map_file_to_server", "file_names", "the same"),
        ("normcase_from_client", "file_names", "the same"),
    ),
    "_pydevd_bundle.pydevd_filtering": (
        ("FilesFiltering.in_project_roots", "file_names", "a mapped package is no library"),
    ),
}  # fmt: skip

#: Names used in the adapter's process, all by inprocess/adapter.py, in a valid order of import.
ADAPTER: Names = {
    "debugpy.adapter.clients": (
        ("Client", "adapter", "a client that the agent hands over"),
        ("serve:listener", "adapter", "send children to the listener"),
        ("Client.disconnect_request", "adapter", "has the last child left"),
        ("Client.notify_of_subprocess", "adapter", "offer it a process"),
    ),
    "debugpy.common.messaging": (
        ("JsonIOStream.write_json", "adapter", "outlive a client that is gone"),
        ("JsonIOError", "adapter", "the same"),
        ("JsonMessageChannel._parse_incoming_message", "adapter", "read no more than an editor reads"),
        ("JsonMessageChannel.send_event", "adapter", "say which process a worker of Ray has started"),
        ("JsonMessageChannel.send_request", "adapter", "the same"),
        ("JsonMessageChannel.__init__:_handler_queue", "adapter", "the same"),
        ("JsonMessageChannel.__init__:_handler_thread", "adapter", "the same"),
        ("NoMoreMessages", "adapter", "the same"),
        ("Request._handle", "adapter", "refuse a request that cannot be handled"),
        ("Request.respond", "adapter", "tell its client"),
        ("Request.cant_handle", "adapter", "with this message"),
    ),
    "debugpy.common.log": (
        ("swallow_exception", "adapter", "log the error"),
        ("to_file", "adapter", "the logs that DEBUGPY_LOG_DIR asks for"),
    ),
    "debugpy.adapter": (
        ("access_token", "adapter", "clients show theirs to the listener"),
    ),
    "debugpy.adapter.sessions": (
        ("report_sockets", "adapter", "it fails when a listener is ours"),
        ("_sessions", "adapter", "who is attached"),
        ("get", "adapter", "the living session of a pid"),
        ("wait_until_ended", "adapter", "serve until then"),
        ("Session.finalize", "adapter", "end the root's session with its last child"),
        ("Session.__init__:is_finalizing", "adapter", "does it end"),
        ("Session.__init__:pid", "adapter", "its process"),
        ("Session.__init__:id", "adapter", "the newer one"),
        ("Session.__init__:client", "adapter", "the client to tell about a process"),
        ("Session.__init__:server", "adapter", "has it attached"),
    ),
    "debugpy.adapter.servers": (
        ("access_token", "adapter", "the token of processes"),
        ("Connection", "adapter", "a process"),
        ("Connection.__init__:pid", "adapter", "the pid that it reports"),
        ("serve:listener", "adapter", "no port for editors"),
        ("connections", "adapter", "which processes are there"),
        ("wait_for_connection", "adapter", "wait for a session that is ending"),
        ("dont_wait_for_first_connection", "adapter", "wait for the root stub"),
        ("wait_until_disconnected", "adapter", "serve until then"),
        ("Server.detach_from_session", "adapter", "offer the process to the next editor"),
        ("Server.__init__:connection", "adapter", "the process of a session"),
        ("Server.__init__", "adapter", "an editor has a worker's session"),
        ("Connection.__init__:ppid", "adapter", "its parent"),
        ("Connection.__init__:server", "adapter", "its session"),
    ),
}  # fmt: skip


def fits(version: Tuple[int, ...]) -> bool:
    """Tell whether a version of debugpy is one that dkdbg works with."""
    return OLDEST <= version < BELOW


def span() -> str:
    """Describe the supported versions."""
    return "debugpy from %s to below %s" % tuple(".".join(map(str, each)) for each in (OLDEST, BELOW))


def missing(names: Names) -> List[str]:
    """Return the names, `MODULE.NAME`, that the debugpy on `sys.path` lacks."""
    return [
        module + "." + name
        for module, listed in names.items()
        for name, _, _ in listed
        if not _has(module, name)
    ]


def _has(module: str, name: str) -> bool:
    path, _, local = name.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    code = getattr(found, "__code__", None)
    return not local or (code is not None and local in code.co_names + code.co_varnames)
