/* A child that is cloned as its parent's sibling (CLONE_PARENT): it is not ours to wait for, and
   its end is told by a pipe. */
#include "trap.h"
#include <sched.h>

int main(void)
{
    int ends[2];
    char byte;
    check(pipe(ends) == 0);
    long child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0);
    check(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 10; i++)
            mark("sibling-%d", i);
        _exit(6);
    }
    close(ends[1]);
    check(read(ends[0], &byte, 1) == 0);
    check(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    puts("not ours");
    return 5;
}
