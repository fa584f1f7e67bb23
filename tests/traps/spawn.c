/* posix_spawn: a clone that shares the memory, on a stack of its own; once of a program that
   is there and once of one that is not. */
#include "trap.h"
#include <spawn.h>

extern char **environ;

int main(void)
{
    pid_t child;
    int status;
    char *words[] = {"sh", "-c", "exit 6", NULL};
    check(posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) == 0);
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 6);
    check(posix_spawn(&child, "/nonexistent/program", NULL, NULL, words, environ) == ENOENT);
    check(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    puts("6 ENOENT");
    return 0;
}
