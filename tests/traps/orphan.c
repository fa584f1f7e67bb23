/* A grandchild is orphaned: prints which process became its parent, as the one who adopts it
   must not change. Its parent's end is told by a pipe, not by time. */
#include "trap.h"
#include <sched.h>

int main(void)
{
    int ends[2], status;
    check(pipe(ends) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        pid_t parent = getpid(), grandchild = fork();
        check(grandchild >= 0);
        if (grandchild > 0)
            _exit(0);
        while (getppid() == parent)
            sched_yield();
        pid_t adopter = getppid();
        check(write(ends[1], &adopter, sizeof adopter) == sizeof adopter);
        _exit(0);
    }
    pid_t adopter;
    check(waitpid(child, &status, 0) == child && status == 0);
    check(read(ends[0], &adopter, sizeof adopter) == sizeof adopter);
    printf("adopted by %d\n", adopter);
    check(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    return 0;
}
