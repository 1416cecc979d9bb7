// A stand-in for Microsoft's Python Debugger extension: what that one does for an entry with "connect", and no more.
// Each DAP message, session and task that the editor has goes as a line of JSON to the file named by EDITOR_TRACE.
"use strict";
const fs = require("fs");
const vscode = require("vscode");

const TYPE = "debugpy";

function trace(kind, fields) {
  fs.appendFileSync(process.env.EDITOR_TRACE, JSON.stringify({ kind, time: Date.now() / 1000, ...fields }) + "\n");
}

function placeOf(breakpoint) {
  const { uri, range } = breakpoint.location;
  return { path: uri.fsPath, line: range.start.line + 1 };
}

/** Events "debugpyAttach" name a process of the program; the editor attaches to it below the session that said so. */
function followChild({ event, session, body }) {
  if (event !== "debugpyAttach" || session.configuration.type !== TYPE) return;
  vscode.debug.startDebugging(session.workspaceFolder, body, { parentSession: session, lifecycleManagedByParent: true });
}

exports.activate = ({ subscriptions }) => {
  const named = ({ id, name }) => ({ session: id, name });
  subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory(TYPE, {
      createDebugAdapterDescriptor: ({ configuration: { connect } }) =>
        new vscode.DebugAdapterServer(Number(connect.port), connect.host),
    }),
    vscode.debug.registerDebugConfigurationProvider(TYPE, {
      resolveDebugConfigurationWithSubstitutedVariables: (_folder, entry) => ({ clientOS: "unix", showReturnValue: true, ...entry }),
    }),
    vscode.debug.onDidReceiveDebugSessionCustomEvent(followChild),
    vscode.debug.registerDebugAdapterTrackerFactory(TYPE, {
      createDebugAdapterTracker: ({ id }) => ({
        onWillReceiveMessage: (message) => trace("sent", { session: id, message }),
        onDidSendMessage: (message) => trace("received", { session: id, message }),
        onError: (error) => trace("adapter-error", { session: id, error: String(error) }),
      }),
    }),
    vscode.debug.onDidStartDebugSession((s) => trace("session-start", { ...named(s), parent: s.parentSession && s.parentSession.id })),
    vscode.debug.onDidTerminateDebugSession((s) => trace("session-end", named(s))),
    vscode.debug.onDidChangeBreakpoints((e) => trace("breakpoints", { added: e.added.map(placeOf), removed: e.removed.map(placeOf) })),
    vscode.tasks.onDidStartTask((e) => trace("task-start", { task: e.execution.task.name })),
    vscode.tasks.onDidEndTaskProcess((e) => trace("task-end", { task: e.execution.task.name, code: e.exitCode })),
  );
  trace("ready", { version: vscode.version });
};
