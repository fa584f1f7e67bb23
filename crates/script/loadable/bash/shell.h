/* Where a builtin would not do as a child process of its program does. */
#pragma once

#include <stdbool.h>

/* Whether the shell, at this command, is one that cannot tell a builtin from a program. */
bool shell_is_plain(void);

/* What names of variables are made of. */
extern const char LETTERS[];

/* Whether a variable has a value of its own in each process (RANDOM, BASHPID). */
bool is_of_each_process(const char *name);
