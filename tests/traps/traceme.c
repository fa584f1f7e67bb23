/* A parent traces its child, in the oldest way: PTRACE_TRACEME. Says whether it was allowed. */
#include "trap.h"
#include <sys/ptrace.h>

int main(void)
{
    int status;
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == -1)
            _exit(errno == EPERM ? 1 : 98);
        raise(SIGSTOP);
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child);
    if (WIFSTOPPED(status)) {
        check(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
        check(waitpid(child, &status, 0) == child);
    }
    check(WIFEXITED(status));
    puts(WEXITSTATUS(status) == 0 ? "traced" : "refused");
    return WEXITSTATUS(status);
}
