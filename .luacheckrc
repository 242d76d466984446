-- Scripts run inside Redis: Lua 5.1 without modules, plus what the server provides.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV", "cjson", "cmsgpack", "struct", "bit" }
max_line_length = 120
ignore = { "143/table" } -- table.unpack, where Lua is 5.4
