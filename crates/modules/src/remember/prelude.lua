-- Tells becalm's tracer what Lmod does without a system call: variables that it reads, the clock.
--
-- Evaluated by `lua -e` before Lmod: so Lmod is started by lua itself, and its error messages and tracebacks are what they are without. What is told is the lookup of a
-- path that is not there, /proc/becalm/KIND/REST. Functions of C are replaced where Lmod finds them.

if _VERSION == "Lua 5.1" then return end -- its arg names no script yet

local is_child = ...
local _G, arg, io, os, debug, package = _G, arg, io, os, debug, package
local open, popen, getenv, time, setlocale = io.open, io.popen, os.getenv, os.time, os.setlocale
local pcall, error, type, rawset, pairs = pcall, error, type, rawset, pairs
local ipairs, tostring, table = ipairs, tostring, table
local pack, unpack = table.pack, table.unpack
local setmetatable, getmetatable, next, rawget = setmetatable, getmetatable, next, rawget
local getinfo, getlocal, getupvalue = debug.getinfo, debug.getlocal, debug.getupvalue

-- `-e` and what it evaluates are no arguments.
local first = 0
while arg[first - 1] do first = first - 1 end
for i = -1, first, -1 do arg[i] = arg[i - 2] end

local function escaped(text)
   return (text:gsub("[^A-Za-z0-9_]", function(byte) return ("%%%02X"):format(byte:byte()) end))
end

local said = {}
local function note(kind, rest)
   local path = "/proc/becalm/" .. kind
   if rest then path = path .. "/" .. escaped(rest) end
   if not said[path] then
      said[path] = true
      open(path)
   end
end

local function unrepeatable(what) note("unrepeatable", what) end

-- A dependency on a file, whether there or not.
local function look(path)
   local file = open(path)
   if file then file:close() end
   return file
end

-- What the original returns. Its errors name the caller's line and the function, as they do when
-- it is called without this.
local function forward(name, original, ...)
   local result = pack(pcall(original, ...))
   if result[1] then return unpack(result, 2, result.n) end
   local message = result[2]
   -- What it says names the function by where Lua has it, which is here no more.
   unrepeatable("error")
   if type(message) == "string" then message = message:gsub("to '%?'", "to '" .. name .. "'") end
   error(message, 3)
end

------------------------------------------------------------------------------------------------
-- The environment

local own = {} -- what Lmod has set itself

local function reads(name)
   if type(name) == "number" then name = tostring(name) end
   if type(name) ~= "string" then return end
   name = name:match("^[^\0]*")
   if #name > 1000 then return unrepeatable("event") end
   if not own[name] then note("env", name) end
   -- A shell has set it, by where it is.
   if is_child and (name == "PWD" or name == "OLDPWD") then note("cwd") end
end

os.getenv = function(...)
   local name = ...
   reads(name)
   if type(name) == "string" then return getenv(name) end
   local value = forward("getenv", getenv, ...)
   return value
end

local function posix_getenv(original)
   return function(...)
      local name = ...
      if name == nil then note("env") else reads(name) end
      local value, problem, number = forward("getenv", original, ...)
      return value, problem, number
   end
end

local set_variable

-- Variables that a program would see with another value than Lmod has come with: that value, or false.
local changed, came_with = {}, {}
local function changes(name, value)
   if type(name) ~= "string" then return end
   if came_with[name] == nil then came_with[name] = getenv(name) or false end
   value = value ~= nil and tostring(value)
   if value == came_with[name] then value = nil end
   changed[name] = value
end

local function posix_setenv(original)
   set_variable = original
   return function(...)
      local name, value, overwrite = ...
      changes(name, value)
      if overwrite == false then reads(name)
      elseif type(name) == "string" then own[name] = true end
      local result = pack(forward("setenv", original, ...))
      return unpack(result, 1, result.n)
   end
end

------------------------------------------------------------------------------------------------
-- The clock. Where Lmod asks for the time, and what for, was read in these releases; anywhere
-- else it decides in ways that nobody knows.

local function release(directory)
   local file = open(directory .. "Version.lua")
   if not file then return end
   local text = file:read("a")
   file:close()
   return text:match('"(%d+%.%d+)')
end

local function line_of(source, number)
   local path = source:match("^@(.*)")
   local file = path and open(path)
   if not file then return "" end
   local text
   for _ = 1, number do text = file:read("l") end
   file:close()
   return (text or ""):gsub("%s+", " "):match("^ ?(.-) ?$")
end

-- The same, read once: one timer may be asked for each directory.
local function once(read)
   local known = {}
   return function(path, number)
      local key = path .. "\0" .. (number or "")
      if known[key] == nil then known[key] = read(path, number) or false end
      return known[key]
   end
end
release, line_of = once(release), once(line_of)

-- The value of a variable that the function at this level above the caller sees: its own, its
-- file's, or one of all.
local function variable(level, wanted)
   local value = rawget(_G, wanted)
   local function look_at(read, of)
      local index = 0
      repeat
         index = index + 1
         local name, found = read(of, index)
         if name == wanted then value = found end
      until not name
   end
   look_at(getupvalue, getinfo(level + 1, "f").func)
   look_at(function(_, index) return getlocal(level + 3, index) end)
   return value
end

-- How long something took is this run's own; it decides nothing unless it is shown.
local function elapsed() return true end

-- Files that are older than `ancient` seconds are passed over.
local function ancient(level)
   local seconds = math.tointeger(tonumber(variable(level + 1, "ancient")))
   if not seconds or seconds < 0 then return false end
   note("age", tostring(seconds))
   return true
end

-- It is shown where the work takes so long that Lmod says so or gives up, and by --timer. Of what
-- is about to be read, a second is not known, and a tenth may pass until then.
local function is_shown()
   local timer = rawget(_G, "s_cTimer")
   if timer and (timer.state == "activeMsg" or timer.state == "done"
      or timer.timeout > 0 and time() - timer.start > timer.timeout - 1.1) then
      return true
   end
   local options = rawget(_G, "optionTbl") or rawget(_G, "masterTbl")
   return options and options().reportTimer
end

local PURPOSES = {
   -- Of computeHashSum: the name that a file has for a moment.
   ["local tmpfn = os.tmpname()"] = elapsed,
   ["local fn = os.tmpname()"] = elapsed,
   ["local x1, x2 = gettimeofday()"] = elapsed, -- how many values it returns
   ["local t1 = epoch()"] = elapsed,
   ["local t2 = epoch()"] = elapsed,
   ["t2 = epoch()"] = elapsed,
   ["local T1 = epoch()"] = elapsed,
   ["local T2 = epoch()"] = elapsed,
   ["o.start = epoch()"] = elapsed,
   ["local delta = epoch() - self.start"] = elapsed,
   ["local systemEpoch = epoch() - ancient"] = ancient,
   ["local diff = os.time() - attr.modification"] = ancient,
   ["s_Epoch = math.floor(epoch())"] = elapsed, -- compared with what mktime returned, see there
}
local FILES = { lmod = true, ["Cache.lua"] = true, ["CTimer.lua"] = true, ["MRC.lua"] = true,
   ["utils.lua"] = true, ["BuildFactory.lua"] = true }
local RELEASES = { ["6.6"] = true, ["8.6"] = true, ["8.7"] = true }

-- Whether the clock is read for a purpose that is known, by Lmod's own code.
local function is_known_purpose()
   local level = 4 -- above this, who asks, and what replaced the function
   local info = getinfo(level, "Slf")
   while info and (info.source:find("/posix/", 1, true) or info.func == rawget(_G, "epoch")) do
      level = level + 1
      info = getinfo(level, "Slf")
   end
   local directory = rawget(_G, "cmdDir") and _G.cmdDir()
   if not info or not directory then return false end
   local file = info.source == "@" .. arg[0] and "lmod" or info.source:match("([^/]*)$")
   local is_lmods = file == "lmod" or info.source == "@" .. directory .. file
   if not is_lmods or not FILES[file] or not RELEASES[release(directory)] then return false end
   local purpose = PURPOSES[line_of(info.source, info.currentline)]
   return purpose and purpose(level) and not is_shown()
end

local function reads_clock()
   if not is_known_purpose() then unrepeatable("clock") end
end

local function names_file()
   if is_known_purpose() then note("temporary") else unrepeatable("random") end
end

local tmpname = os.tmpname
os.tmpname = function()
   names_file()
   local name, problem = tmpname()
   return name, problem
end

os.time = function(...)
   if (...) == nil then
      reads_clock()
      return time()
   end
   local value = forward("time", time, ...)
   return value
end

local clock = os.clock
os.clock = function()
   unrepeatable("clock")
   return clock()
end

local date = os.date
os.date = function(...)
   local _, moment = ...
   if moment == nil then unrepeatable("clock") end
   local value = forward("date", date, ...)
   return value
end

-- What reads the clock, whatever it is for.
local function timed(name)
   return function(original)
      return function(...)
         reads_clock()
         local result = pack(forward(name, original, ...))
         return unpack(result, 1, result.n)
      end
   end
end

-- A rule of MRC.lua that begins or ends at this moment, in a summer's or a winter's hour, and
-- what is nearly forbidden before.
local function rule_until(moment)
   local days = tonumber(package.loaded.Cosmic:singleton():value("LMOD_NEARLY_FORBIDDEN_DAYS")) or 0
   for _, border in ipairs { moment, moment - days * 86400 } do
      local left = border - time()
      if left > 3600 then note("until", tostring(math.floor(border - 3600)))
      elseif left > -3600 then unrepeatable("clock") end
   end
end

local function posix_mktime(original)
   return function(...)
      local result = pack(forward("mktime", original, ...))
      local moment = result[1]
      if type(moment) ~= "number" or not pcall(rule_until, moment) then unrepeatable("clock") end
      return unpack(result, 1, result.n)
   end
end

local collect = collectgarbage
collectgarbage = function(...)
   local what = ...
   if what == "count" then unrepeatable("memory") end
   local result = pack(forward("collectgarbage", collect, ...))
   return unpack(result, 1, result.n)
end

local random, randomseed = math.random, math.randomseed
math.random = function(...)
   unrepeatable("random")
   local value = forward("random", random, ...)
   return value
end
math.randomseed = function(...)
   unrepeatable("random")
   local result = pack(forward("randomseed", randomseed, ...))
   return unpack(result, 1, result.n)
end

------------------------------------------------------------------------------------------------
-- The width of the terminal, which Lmod 8 asks two programs for in every command. They are run;
-- what they depend on is said here, because they are not traced.

-- With them, bash may show what it is told to do, or not do it.
local function has_shell_options()
   reads("SHELLOPTS")
   reads("BASHOPTS")
   return getenv("SHELLOPTS") or getenv("BASHOPTS")
end

-- A shell may also speak on the error channel, which nobody hears: where its locale is not there,
-- and where it is to trace what it does.
local function is_silent_shell()
   for name in ("%LOADER%"):gmatch("%S+") do
      if (getenv(name) or "") ~= "" then return false end
   end
   local link = package.loaded.posix and package.loaded.posix.readlink
   local target = look("/bin/sh") and link and link("/bin/sh")
   if type(target) ~= "string" then return false end
   if target:find("dash$") then return true end
   if has_shell_options() then return false end
   local before = setlocale(nil, "all")
   local is_there = setlocale("", "all")
   setlocale(before, "all")
   return is_there
end

-- In which of the system's directories a shell finds a program, if it is one of these.
local function look_for(program)
   reads("PATH")
   reads("BASH_FUNC_" .. program .. "%%")
   if getenv("BASH_FUNC_" .. program .. "%%") then return false end
   for directory in ((getenv("PATH") or "") .. ":"):gmatch("([^:]*):") do
      -- What begins with % is dash's to understand: files there define functions, or commands of its own come first.
      if directory:sub(1, 1) ~= "/" or directory:find("%", 1, true) then return false end
      if look(directory .. "/" .. program) then
         return (directory == "/usr/bin" or directory == "/bin") and directory
      end
   end
   return false
end

local function look_for_terminfo()
   for name in ("TERM TERMINFO TERMINFO_DIRS TERMCAP TERMPATH HOME COLUMNS LINES"):gmatch("%S+") do
      reads(name)
   end
   local term = getenv("TERM") or ""
   if getenv("TERMINFO") or getenv("TERMINFO_DIRS") or getenv("TERMCAP") or getenv("TERMPATH")
      or not term:find("^%w[%w.+-]*$") then return false end
   local places = { "/etc/terminfo", "/lib/terminfo", "/usr/lib/terminfo", "/usr/share/terminfo" }
   if getenv("HOME") then table.insert(places, 1, getenv("HOME") .. "/.terminfo") end
   for _, place in ipairs(places) do
      look(place .. "/" .. term:sub(1, 1) .. "/" .. term)
   end
   return true
end

local WIDTHS = {
   ["stty size 2> /dev/null"] = function() return look_for("stty") end,
   ["tput cols 2> /dev/null"] = function() return look_for("tput") and look_for_terminfo() end,
}

-- How a pager that Lmod starts is started once more, if it is one that can be: by env with the
-- variables that Lmod has set, and by sh. A path is not longer than 4096 bytes.
local function pager_words(command, mode)
   if mode ~= "w" or type(command) ~= "string"
      or not command:find("^LESS=[%w.,:+-]* /[%w/._+-]+ 1>&2$") then return end
   local set, unset = {}, {}
   for name, value in pairs(changed) do
      if value then table.insert(set, name .. "=" .. value)
      else table.insert(unset, "-u\0" .. name) end
   end
   table.sort(set)
   table.sort(unset)
   local words = { "/usr/bin/env" }
   for _, list in ipairs({ unset, set, { "/bin/sh", "-c", command } }) do
      for _, word in ipairs(list) do table.insert(words, word) end
   end
   words = escaped(table.concat(words, "\0"))
   return #words < 4000 and look("/usr/bin/env") and look("/bin/sh")
      and look(command:match(" (/[^ ]+)")) and words
end

------------------------------------------------------------------------------------------------
-- Other programs of Lmod's, in Lua: this prelude speaks for them, too. What sums up a file is known.

-- The words of a command that mean to any shell what they say: plain ones, and quoted ones.
local function are_plain(words)
   words = words:gsub("'[^'\n]*'", "x"):gsub(" 2> ?/dev/null$", "")
   return words:find("^[%w/._+=:@,% -]*$")
end

local function is_same_file(one, other)
   local stat = package.loaded.posix and package.loaded.posix.stat
   local first, second = stat and stat(one), stat and stat(other)
   return first and second and first.dev == second.dev and first.ino == second.ino
end

-- What modulefiles ask, and is followed (programs.rs).
local ASKED = {}
for name in ("%PROGRAMS%"):gmatch("%S+") do ASKED[name] = true end

-- The path of such a program, where a shell becomes it.
local function asked_program(command)
   local directory, name, words = command:match("^(/[%l/]+/)(%l+)(.*)$")
   if not directory then name, words = command:match("^(%l+)(.*)$") end
   if not ASKED[name] or words:find("^[^ ]") or not are_plain(words) then return end
   if not is_silent_shell() or has_shell_options() then return end
   if directory == "/usr/bin/" or directory == "/bin/" then return directory .. name end
   local found = not directory and look_for(name)
   return found and found .. "/" .. name
end

-- Under which words a shell becomes the program itself, followed.
local function followed_words(command)
   local asked = asked_program(command)
   if asked then
      open("/proc/becalm/becomes/" .. escaped(asked))
      return "exec " .. command
   end
   local program, script, words = command:match("^(/[%w/._+-]+) (/[%w/._+-]+)(.*)$")
   if not program or not are_plain(words) then return end
   if has_shell_options() then return end
   if words == "" and script:find("^/tmp/lua_%w+$") then
      open("/proc/becalm/becomes/" .. escaped(program))
      return "exec " .. command
   end
   local directory = rawget(_G, "cmdDir") and _G.cmdDir()
   local access = package.loaded.posix and package.loaded.posix.access
   -- Where it can make no file, it ends with a traceback, in which this would be seen.
   if script:find("/computeHashSum$") and not (access and access("/tmp", "w")) then return end
   local own_file = getinfo(1, "S").source:match("^@(/proc/%d+/fd/%d+)$")
   if not own_file or type(directory) ~= "string"
      or script:match("^(.*/)[^/]*$") ~= (directory:gsub("([^/])$", "%1/"))
      or not is_same_file(program, arg[first + 2]) then return end
   open("/proc/becalm/becomes/" .. escaped(program)) -- of each, so not only the first
   local code = ('loadfile("%s")("child")'):format(own_file)
   return ("exec %s -e '%s' %s%s"):format(program, code, script, words)
end

io.popen = function(...)
   local command, mode = ...
   local pager = pager_words(command, mode)
   if pager then open("/proc/becalm/pager/" .. pager) end
   local dependencies = mode == nil and WIDTHS[command]
   if dependencies and is_silent_shell() and dependencies() then
      note("terminal")
      open("/proc/becalm/child/" .. command:match("^%l+")) -- of each, so not only the first
   end
   local words = mode == nil and type(command) == "string" and followed_words(command)
   local file, problem, number
   if words then file, problem, number = popen(words)
   else file, problem, number = forward("popen", popen, ...) end
   if file then return file end
   return file, problem, number
end

------------------------------------------------------------------------------------------------
-- What is loaded later

-- A Tcl modulefile is evaluated in this process. Tcl reads its prelude at the end of init.tcl, and says then
-- that it knows what its user is called.
local function run_tcl(original)
   return function(...)
      reads("LMOD_VERSION") -- which its own code in Tcl does in each interpreter
      open("/proc/becalm/user")
      local whole, is_done = forward("runTCLprog", original, ...)
      return whole, is_done
   end
end

-- Of what is told of a file, its times of change do not say when it was last read, nor on how many blocks
-- it lies: these decide only where they are looked at.
local UNSETTLED = {}
for name in ("access blocks blksize atime st_atime st_blocks st_blksize"):gmatch("%S+") do
   UNSETTLED[name] = true
end
local hidden = setmetatable({}, { __mode = "k" })

local function show(about)
   local told = hidden[about]
   if not told then return end
   unrepeatable("access")
   hidden[about] = nil
   for field, value in pairs(told) do rawset(about, field, value) end
end

local HIDES = {
   __index = function(about, field)
      if not (UNSETTLED[field] and hidden[about]) then return nil end
      show(about)
      return rawget(about, field)
   end,
   __pairs = function(about)
      show(about)
      return next, about, nil
   end,
}

-- The same beside what a table says of itself, as posix's do.
local hides_as = setmetatable({}, { __mode = "k" })
local function hiding(says)
   if not says then return HIDES end
   if not hides_as[says] then
      hides_as[says] = { __index = HIDES.__index, __pairs = HIDES.__pairs }
      for name, value in pairs(says) do hides_as[says][name] = value end
   end
   return hides_as[says]
end

-- posix's stat takes over all fields of posix.sys.stat's.
local takes_over = false

local function tells_of_file(name)
   return function(original)
      return function(...)
         for at = 2, select("#", ...) do
            local what = select(at, ...)
            if UNSETTLED[what] or type(what) == "table" then unrepeatable("access") end
         end
         local was_taking_over = takes_over
         takes_over = name == "posix"
         local result = pack(forward(name == "posix" and "stat" or name, original, ...))
         takes_over = was_taking_over
         local about = result[1]
         if type(about) == "table" and not takes_over then
            local told = {}
            for field in pairs(UNSETTLED) do told[field], about[field] = about[field], nil end
            hidden[about] = told
            setmetatable(about, hiding(getmetatable(about)))
         end
         return unpack(result, 1, result.n)
      end
   end
end

-- What goes on from one field to the next, or past metamethods, would not see what is hidden. Lmod asks for
-- the first field, to see whether there is one.
for name, sees in pairs { next = function(_, key) return key ~= nil end, rawget = function() return true end } do
   local original = _G[name]
   _G[name] = function(...)
      if sees(...) then show((...)) end
      return forward(name, original, ...)
   end
end

-- As much memory as is free, and others that no call tells of.
local function asks_system(original)
   return function(...)
      unrepeatable("limits")
      local result = pack(forward("sysconf", original, ...))
      return unpack(result, 1, result.n)
   end
end

local REPLACED = {
   ["posix.stdlib"] = { getenv = posix_getenv, setenv = posix_setenv },
   ["posix.time"] = { time = timed("time"), clock_gettime = timed("clock_gettime") },
   ["posix.sys.time"] = { gettimeofday = timed("gettimeofday") },
   ["posix.sys.times"] = { times = timed("times") },
   ["posix.sys.stat"] = { stat = tells_of_file("stat"), lstat = tells_of_file("lstat") },
   ["posix.unistd"] = { sysconf = asks_system },
   ["posix"] = { mktime = posix_mktime, stat = tells_of_file("posix") },
   ["lfs"] = { attributes = tells_of_file("attributes"),
      symlinkattributes = tells_of_file("symlinkattributes") },
   ["tcl2lua"] = { runTCLprog = run_tcl },
}

-- Modules of C of which it is known what they read.
local function is_known(name)
   return name == "posix" or name:find("^posix[._]") or name == "lfs" or name == "term"
      or name == "term.core" or name == "tcl2lua" or name == "lpeg" or name == "bit32"
end

-- `require` keeps what it has loaded here, with respect to metamethods.
setmetatable(package.loaded, { __newindex = function(loaded, name, module)
   for field, replace in pairs(REPLACED[name] or {}) do
      if type(module) == "table" and type(module[field]) == "function" then
         module[field] = replace(module[field])
      end
   end
   rawset(loaded, name, module)
end })

-- Asked before those that look for modules of C, and finds none.
table.insert(package.searchers, 3, function(name)
   if not is_known(name) and package.searchpath(name:match("^[^.]*"), package.cpath) then
      unrepeatable("library")
   end
end)

local loadlib = package.loadlib
package.loadlib = function(...)
   unrepeatable("library")
   local result = pack(forward("loadlib", loadlib, ...))
   return unpack(result, 1, result.n)
end

note("begun")
