/* Starting a program from a shell without copying the shell. */
#pragma once

#include <spawn.h>
#include <stdbool.h>

/* Has bash's own calls of fork() and execve() come here. False: they cannot be found. */
bool take_over_calls(void);

/* Starts a program by posix_spawn, as a child that bash knows nothing of. 0: it cannot be. */
pid_t spawn(char *path, char **argv, const posix_spawn_file_actions_t *actions);

/* Starts a program and waits for it, as bash itself does, but by posix_spawn where bash would
   copy itself only to exec. Returns the status. */
int start(char *path, char **argv);
