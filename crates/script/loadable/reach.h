/* Shells that are started as programs get a library, too: no file and no variable of theirs says
   so. LD_PRELOAD is there from execve to the library's first instruction. */
#pragma once

#include <stddef.h>

/* Whether the process was started so; the variable is taken out of its environment. */
_Bool was_reached(void);

/* How many pointers a list of variables needs with one more. */
size_t reach_size(char *const *envp);

/* The variables with which a program is to be executed: envp itself, or, for a program that takes
   a library, a copy in LIST with the one that loads it. */
char *const *reach(const char *path, char *const *envp, char **list, char *variable);

enum { REACH_VARIABLE = 4096 + 16 };

/* execve, with that. */
int execve_reaching(const char *path, char *const *argv, char *const *envp);
