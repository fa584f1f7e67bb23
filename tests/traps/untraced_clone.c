/* A child that is cloned so that a tracer shall not follow it: untraced_clone (clone|clone3) */
#include "trap.h"
#include <linux/sched.h>

int main(int count, char **words)
{
    check(count == 2);
    struct clone_args with = {.flags = CLONE_UNTRACED, .exit_signal = SIGCHLD};
    pid_t child = !strcmp(words[1], "clone3")
                      ? syscall(SYS_clone3, &with, sizeof with)
                      : syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, NULL, NULL, NULL, 0);
    int status;
    check(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 10; i++)
            mark("untraced-%d", i);
        _exit(4);
    }
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 4);
    puts("the child could ask");
    return 0;
}
