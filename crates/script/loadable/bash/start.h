/* Starting a program from a shell without copying the shell. */
#pragma once

#include <stdbool.h>

/* Has bash's own calls of fork() and execve() come here. False: they cannot be found. */
bool take_over_calls(void);

/* Starts a program and waits for it, as bash itself does, but by posix_spawn where bash would
   copy itself only to exec. Returns the status. */
int start(char *path, char **argv);
