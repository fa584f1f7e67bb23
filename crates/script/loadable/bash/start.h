/* Starting a program from a shell without copying the shell. */
#pragma once

#include <spawn.h>
#include <stdbool.h>

/* fork() for make_child, which keeps the books of bash's children. */
pid_t fork_or_spawn(void);

/* execve() for what bash executes itself, in a child of its own or in its place. */
int execve_counted(const char *path, char *const *argv, char *const *envp);

/* What this process, or the next that it forks, executes next has been counted. */
void note_counted(void);

/* Starts a program by posix_spawn, as a child that bash knows nothing of. 0: it cannot be. */
pid_t spawn(char *path, char **argv, const posix_spawn_file_actions_t *actions);

/* Starts a program and waits for it, as bash itself does, but by posix_spawn where bash would
   copy itself only to exec. Returns the status. */
int start(char *path, char **argv);
