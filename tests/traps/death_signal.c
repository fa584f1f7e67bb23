/* A child asks for a signal when its parent dies, and gets it then, not before. */
#include "trap.h"
#include <sys/prctl.h>

static void serve(int ready, int answer)
{
    sigset_t term;
    siginfo_t info;
    struct timespec at_most = {.tv_sec = 30};
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    check(sigprocmask(SIG_BLOCK, &term, NULL) == 0);
    check(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
    check(write(ready, "r", 1) == 1);
    char kind = sigtimedwait(&term, &info, &at_most) == SIGTERM ? 'T' : 'n';
    check(write(answer, &kind, 1) == 1);
    _exit(0);
}

int main(void)
{
    int ready[2], answer[2], status;
    char byte;
    check(pipe(ready) == 0 && pipe(answer) == 0);
    pid_t parent = fork();
    check(parent >= 0);
    if (parent == 0) {
        pid_t child = fork();
        check(child >= 0);
        if (child == 0)
            serve(ready[1], answer[1]);
        check(read(ready[0], &byte, 1) == 1);
        _exit(0);
    }
    check(waitpid(parent, &status, 0) == parent && status == 0);
    check(read(answer[0], &byte, 1) == 1);
    printf("death signal: %s\n", byte == 'T' ? "SIGTERM" : "none");
    return 0;
}
