/* vfork: the parent must stand still until the child has exited or executed a program. */
#include "trap.h"

int main(void)
{
    static volatile int steps;
    int status;

    pid_t child = vfork();
    check(child >= 0);
    if (child == 0) {
        mark("vfork-exits");
        steps = 1;
        _exit(3);
    }
    check(steps == 1);
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);

    child = vfork();
    check(child >= 0);
    if (child == 0) {
        steps = 2;
        execl("/bin/sh", "sh", "-c", "exit 4", NULL);
        _exit(98);
    }
    check(steps == 2);
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 4);
    puts("3 4");
    return 0;
}
