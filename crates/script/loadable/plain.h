/* Where a builtin would not do as a child process of its program does. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Remembers what the shell has begun with. */
void remember_limits(void);

/* Whether the shell, at this command, is one that cannot tell a builtin from a program. */
bool shell_is_plain(void);

/* Whether execve would take the arguments, and the program do with the exported variables as it
   always does. */
bool variables_are_plain(char *const *argv);

/* Opens what is the same file for every process: not so what /proc/self leads to, unless that is
   all that is opened. -1: it is not, or cannot be opened. */
int open_for_all(const char *path, int flags, mode_t mode);

/* Whether a path leads to the same file outside of /proc for every process. */
bool is_for_all(const char *path, bool follow);
