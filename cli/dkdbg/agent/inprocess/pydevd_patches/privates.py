"""All internals of debugpy and pydevd that dkdbg uses or replaces, and the versions that have them.

tests/agent/test_privates.py looks up these names in each released version from OLDEST to NEWEST_TRIED. Other versions:

- A newer one below BELOW is used if it has all names. Otherwise the agent or the process reports the missing names, and
  does not debug.
- One below OLDEST, or from BELOW on, is not used; the supported versions are reported.

The same applies to a debugpy that the program itself has imported.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

    Names = Dict[str, Tuple[str, ...]]

#: Versions of debugpy: the oldest supported, the first unsupported, and the newest that all tests have run with.
OLDEST = (1, 8, 16)
BELOW = (1, 9)
NEWEST_TRIED = (1, 8, 22)

# Module -> names in it. `function:name` is a variable or an attribute that the function uses.

#: Names used in the user's process.
PROGRAM: Names = {
    "debugpy.server.api": ("ensure_logging", "listen", "_starts_debugging", "_adapter_process"),
    "pydevd": (
        "settrace", "_locked_settrace:access_token", "get_global_debugger", "SetupHolder.setup",
        "PyDB.__init__:pydb_disposed", "PyDB.__init__:trace_dispatch", "PyDB.enable_tracing",
        "PyDB.on_disconnect", "PyDB.dispose_and_kill_all_pydevd_threads",
        "PyDB.set_tracing_for_untraced_contexts", "PyDB.connect", "PyDB.initialize_network",
        "PyDB.__init__:_client_socket", "PyDB.__init__:reader", "CheckAliveThread._on_run",
        "PyDB.has_user_threads_alive", "PyDB._PyDB__wait_for_threads_to_finish",
        "PyDB.__init__:created_pydb_daemon_threads", "PyDB.__init__:check_alive_thread",
        "CheckAliveThread.__init__:_wait_event", "time", "PyDB.set_suspend", "PyDB.do_wait_suspend", "CMD_SET_BREAK", "pydevd_file_utils",
        "PyDB.__init__:_threads_suspended_single_notification",
        "AbstractSingleNotificationBehavior.on_thread_suspend",
        "AbstractSingleNotificationBehavior.on_thread_resume",
        "AbstractSingleNotificationBehavior.__init__:_lock",
        "AbstractSingleNotificationBehavior.__init__:_suspend_time_request",
        "AbstractSingleNotificationBehavior.__init__:_last_suspend_notification_time",
        "AbstractSingleNotificationBehavior.__init__:_last_resume_notification_time",
        "AbstractSingleNotificationBehavior.__init__:_suspended_thread_id_to_thread",
        "ThreadsSuspendedSingleNotification.send_resume_notification",
        "ThreadsSuspendedSingleNotification.__init__:_callbacks",
        "ThreadsSuspendedSingleNotification.__init__:_callbacks_lock", "PyDB.post_internal_command",
        "PyDB.handle_breakpoint_condition", "PyDB.__init__:skip_suspend_on_breakpoint_exception",
        "PyDB.__init__:_thread_events", "PyDB.do_stop_on_unhandled_exception",
        "PyDB.__init__:fix_top_level_trace_and_get_trace_func", "PyDB.is_attached", "PyDB.__init__:breakpoints",
        "PyDB.__init__:writer", "PyDB.__init__:cmd_factory", "PyDB.consolidate_breakpoints", "PyDB.get_file_type", "PyDB._clear_caches", "PyDB.apply_files_filter", "_is_attached",
        "PyDB.set_trace_for_frame_and_parents", "PyDB.enable_output_redirection", "threadingEnumerate",
        "PYDEVD_USE_SYS_MONITORING",
    ),
    "_pydevd_bundle.pydevd_api": (
        "resume_threads", "PyDevdAPI.request_resume_thread", "PyDevdAPI.run", "PyDevdAPI.request_disconnect",
        "PyDevdAPI.add_breakpoint", "PyDevdAPI.remove_all_breakpoints", "_get_code_lines",
    ),
    "_pydevd_bundle.pydevd_breakpoints": (
        "LineBreakpoint.__init__:_hit_count", "LineBreakpoint.__init__:_hit_condition_lock",
    ),
    "_pydevd_bundle.pydevd_comm": ("resume_threads", "WriterThread.__init__:_cmd_queue", "WriterThread.empty"),
    "_pydevd_bundle.pydevd_thread_lifecycle": ("STATE_SUSPEND", "set_additional_thread_info", "internal_run_thread"),
    "_pydevd_bundle.pydevd_trace_dispatch": ("USING_CYTHON",),
    "_pydevd_bundle.pydevd_trace_dispatch_regular": (
        "is_unhandled_exception", "TopLevelThreadTracerNoBackFrame.__init__:_last_exc_arg",
    ),
    "_pydevd_bundle.pydevd_frame_utils": ("create_frames_list_from_traceback", "EXCEPTION_TYPE_UNHANDLED"),
    "_pydevd_bundle.pydevd_net_command_factory_json": (
        "NetCommandFactoryJson.make_console_message", "NetCommandFactoryJson.make_io_message",
    ),
    "_pydevd_bundle.pydevd_process_net_command_json": (
        "PyDevJsonCommandProcessor.process_net_command_json", "PyDevJsonCommandProcessor._set_debug_options", "NetCommand", "CMD_RETURN", "json", "pydev_log",
        "NetCommand.__init__:as_dict", "NetCommand.__init__:_as_bytes",
    ),
    "_pydevd_bundle.pydevd_additional_thread_info": (
        "set_additional_thread_info", "PyDBAdditionalThreadInfo.top_level_thread_tracer_no_back_frames",
    ),
    "_pydevd_bundle.pydevd_constants": ("PYDEVD_USE_SYS_MONITORING", "_current_frames"),
    "_pydev_bundle.pydev_monkey": ("_on_forked_process",),
    "_pydevd_sys_monitoring.pydevd_sys_monitoring": (
        "stop_monitoring", "enable_code_tracing", "FuncCodeInfo", "update_monitor_events",
    ),
    "pydevd_tracing": (
        "_load_python_helper_lib", "_internal_set_trace", "TracingFunctionHolder._original_tracing",
        "set_trace_to_threads", "replace_sys_set_trace_func", "restore_sys_set_trace_func",
    ),
    "_pydevd_bundle.pydevd_daemon_thread": ("PyDBDaemonThread._stop_trace",),
    "_pydevd_bundle.pydevd_json_debug_options": ("DebugOptions.update_from_args",),
    "_pydev_bundle._pydev_saved_modules": ("_queue",),
    "_pydevd_bundle.pydevd_extension_utils": ("extensions_of_type",),
    "_pydevd_bundle.pydevd_extension_api": ("StrPresentationProvider", "TypeResolveProvider"),
    "_pydevd_bundle.pydevd_resolver": ("defaultResolver",),
    "pydevd_file_utils": (
        "canonical_normalized_path", "_abs_and_canonical_path", "absolute_path", "setup_client_server_paths",
        "map_file_to_server", "normcase_from_client",
        "get_abs_path_real_path_and_base_from_file",
    ),
    "_pydevd_bundle.pydevd_filtering": ("FilesFiltering.in_project_roots",),
}  # fmt: skip

#: Names used in the adapter's process, all by inprocess/adapter.py, in a valid order of import.
ADAPTER: Names = {
    "debugpy.adapter.clients": (
        "Client", "serve:listener", "Client.disconnect_request", "Client.notify_of_subprocess",
        "Client.__init__:known_subprocesses",
    ),
    "debugpy.common.messaging": (
        "JsonIOStream.write_json", "JsonIOError", "JsonMessageChannel._parse_incoming_message",
        "JsonMessageChannel.send_event", "JsonMessageChannel.send_request",
        "JsonMessageChannel.__init__:_handler_queue", "JsonMessageChannel.__init__:_handler_thread",
        "NoMoreMessages", "Request._handle", "Request.respond", "Request.cant_handle",
    ),
    "debugpy.common.log": ("swallow_exception", "to_file"),
    "debugpy.adapter": ("access_token",),
    "debugpy.adapter.sessions": (
        "report_sockets", "_sessions", "get", "wait_until_ended", "Session.finalize",
        "Session.__init__:is_finalizing", "Session.__init__:pid", "Session.__init__:id",
        "Session.__init__:client", "Session.__init__:server",
    ),
    "debugpy.adapter.servers": (
        "access_token", "Connection", "Connection.__init__:pid", "serve:listener", "connections",
        "wait_for_connection", "dont_wait_for_first_connection", "wait_until_disconnected",
        "Server.detach_from_session", "Server.__init__:connection", "Server.__init__",
        "Connection.__init__:ppid", "Connection.__init__:server",
    ),
}  # fmt: skip


def fits(version: Tuple[int, ...]) -> bool:
    """Tell whether dkdbg supports a version of debugpy."""
    return OLDEST <= version < BELOW


def span() -> str:
    """Return `debugpy from OLDEST to below BELOW`, for messages."""
    return "debugpy from %s to below %s" % tuple(".".join(map(str, each)) for each in (OLDEST, BELOW))


def missing(names: Names) -> List[str]:
    """Return those of the names, as `MODULE.NAME`, that the debugpy on `sys.path` lacks."""
    return [
        module + "." + name for module, listed in names.items() for name in listed if not _has(module, name)
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
