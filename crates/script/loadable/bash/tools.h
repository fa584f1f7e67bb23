/* The programs that bash has as builtins while this library is loaded. */
#pragma once

#include <stdbool.h>

#include "bash.h"

/* Whether a builtin's function is one of ours. */
bool is_tool(sh_builtin_func_t *function);

/* Whether a name is one of a tool. */
bool is_tool_name(const char *name);
