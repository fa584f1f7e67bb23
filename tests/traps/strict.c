/* Goes into seccomp's strict mode: read, write and exit only. */
#include "trap.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>

int main(void)
{
    mark("before-strict");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == -1)
        return printf("refused: %s\n", strerrorname_np(errno)), 1;
    check(write(1, "strict\n", 7) == 7);
    syscall(SYS_exit, 4);
}
