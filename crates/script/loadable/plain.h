/* What a program is given that is not in its arguments, and may make another program of it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Remembers what the shell has begun with. */
void remember_limits(void);

/* Whether a limit is lower now. */
bool a_limit_is_lower(void);

/* Whether a library of ours would need more of the stack than there may be (ulimit -s). */
bool stack_is_small(void);

/* Whether execve would take the arguments, and the program do with these variables as it always
   does. */
bool variables_are_plain(char *const *argv, char *const *envp);

/* Whether a variable ("name=value") has the loader or a program do something else. */
bool changes_programs(const char *variable);

/* Opens what is the same file for every process: not so what /proc/self leads to, unless that is
   all that is opened. -1: it is not, or cannot be opened. */
int open_for_all(const char *path, int flags, mode_t mode);

/* Whether it counts which process reads or writes an open file: in /proc, and in control groups. */
bool is_of_processes(int file);

/* Whether a path leads to the same file outside of /proc for every process. */
bool is_for_all(const char *path, bool follow);
