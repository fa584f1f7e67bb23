/* The programs that bash has as builtins while this library is loaded. */
#pragma once

#include <stdbool.h>

#include "../known.h"
#include "bash.h"

/* Whether a builtin's function is one of ours. */
bool is_tool(sh_builtin_func_t *function);

/* The tool that a command's first word names, be it by the path of its file; TOOLS_KNOWN if there is
   none. */
enum tool tool_of_word(const char *word);
