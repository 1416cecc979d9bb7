-- A stand-in for the plugin nvim-dap: what that one does for the entry of a launch.json that attaches, and no more.
local M = { adapters = {} }
local breakpoints = {} -- path: lines
local stopped -- the session that is shown

local Session = {}
Session.__index = Session

local function filled(value)
  if type(value) == "table" then
    return vim.tbl_map(filled, value)
  end
  return type(value) == "string" and (value:gsub("%${workspaceFolder}", vim.fn.getcwd())) or value
end

local function open(config)
  M.adapters[config.type](function(adapter)
    local self = setmetatable({ config = config, number = 0, waiting = {}, tcp = vim.loop.new_tcp() }, Session)
    self.tcp:connect(adapter.host, adapter.port, vim.schedule_wrap(function(failed)
      if failed then
        return vim.notify(failed, vim.log.levels.ERROR)
      end
      self:read()
      self:request("initialize", { clientID = "neovim", adapterID = config.type, pathFormat = "path", linesStartAt1 = true,
        columnsStartAt1 = true, supportsStartDebuggingRequest = true }, function()
        self:request(config.request, config)
      end)
    end))
  end, config)
end

function Session:read()
  local rest = ""
  self.tcp:read_start(function(failed, piece)
    if failed or not piece then
      return self.tcp:close()
    end
    rest = rest .. piece
    while true do
      local _, head, length = rest:find("Content%-Length: (%d+)\r\n\r\n")
      if not head or #rest < head + tonumber(length) then
        return
      end
      local message = rest:sub(head + 1, head + tonumber(length))
      rest = rest:sub(head + tonumber(length) + 1)
      vim.schedule(function() self:heard(vim.json.decode(message)) end)
    end
  end)
end

function Session:send(message)
  self.number = self.number + 1
  message.seq = self.number
  local text = vim.json.encode(message)
  self.tcp:write(("Content-Length: %d\r\n\r\n%s"):format(#text, text))
end

function Session:request(command, arguments, answered)
  self:send({ type = "request", command = command, arguments = arguments })
  self.waiting[self.number] = answered
end

function Session:heard(message)
  if message.type == "response" then
    if not message.success then
      return vim.notify(message.command .. ": " .. tostring(message.message), vim.log.levels.ERROR)
    end
    return (self.waiting[message.request_seq] or function() end)(message.body)
  end
  if message.command == "startDebugging" then
    local child = message.arguments.configuration
    open(vim.tbl_extend("force", child, { type = self.config.type, request = message.arguments.request }))
    self:send({ type = "response", command = message.command, request_seq = message.seq, success = true })
  elseif message.event == "initialized" then
    for path, lines in pairs(breakpoints) do
      self:request("setBreakpoints", { source = { path = path }, breakpoints = vim.tbl_map(function(line)
        return { line = line }
      end, lines) })
    end
    self:request("configurationDone")
  elseif message.event == "stopped" then
    self:show(message.body.threadId)
  end
end

function Session:show(thread)
  self.thread = thread
  self:request("stackTrace", { threadId = thread }, function(stack)
    local frame = stack.stackFrames[1]
    self:request("scopes", { frameId = frame.id }, function(scopes)
      local locals = scopes.scopes[1]
      self:request("variables", { variablesReference = locals.variablesReference }, function(found)
        locals.variables = found.variables
        frame.scopes = { locals }
        self.current_frame, stopped = frame, self
      end)
    end)
  end)
end

function M.session()
  return stopped
end

function M.toggle_breakpoint()
  local path = vim.api.nvim_buf_get_name(0)
  breakpoints[path] = { vim.fn.line(".") }
end

function M.continue()
  if stopped then
    local session = stopped
    stopped, session.current_frame = nil, nil
    return session:request("continue", { threadId = session.thread })
  end
  local text = table.concat(vim.fn.readfile(".vscode/launch.json"), "\n")
  open(filled(vim.json.decode(text).configurations[1]))
end

return M
