/* Subshells of which all that is seen is one program: ( eval "$ac_compile" ) 2>conftest.err. The
   shell starts it itself, redirected, in the place of a copy of itself that would start it and wait. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Has bash's make_child come here. False: it cannot be. */
bool take_over_subshells(void);

/* Called as fork() in make_child. False: a child is to be made as ever. */
bool start_of_subshell(pid_t *child);

/* Called as fork() for a program that a copy of the shell starts: its redirections are done. */
void subshell_has_begun(void);

/* Called as waitpid(). True: no child has ended yet. */
bool waits_for_interrupted(int flags);

/* A pipe that bash has made. */
void note_pipe(const int *ends);

/* open(), as bash calls it. */
int open_or_again(const char *path, int flags, ...);
