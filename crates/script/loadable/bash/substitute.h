/* Command substitutions that only compute: `echo "$x" | sed s/a/b/`. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Has bash's command substitution come here. */
bool take_over_substitution(void);

/* The next child to be born is one that has ended already, with a status as of waitpid(). */
void tell_of_child(pid_t child, int status);

/* For bash's own calls: a pipe, a child's birth (0: it is to be made), and its end. */
int pipe_noted(int *ends);
pid_t child_that_is_known(void);
pid_t waitpid_or_known(pid_t child, int *status, int flags);
