/* A script that asks bash what a name is must be told what it would be told without us. */
#pragma once

#include <stdbool.h>

#include "bash.h"

/* Hides the names of tools from type, command -v, hash, builtin, enable, compgen and help. */
bool hide_tools(void);

/* Whether they are at this moment. */
bool tools_are_hidden(void);

/* Adds builtins to bash's table, as enable does. */
void add_builtins(const struct builtin *more, int count);
