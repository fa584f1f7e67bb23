/* Closes every descriptor there may be, one by one and then by range, and goes on. */
#include "trap.h"

int main(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    puts("closing");
    fflush(stdout);
    check(syscall(SYS_close_range, 0, ~0u, 0) == 0);
    for (int i = 0; i < 10; i++)
        mark("closed-%d", i);
    check(open("/dev/null", O_RDONLY) == 0);
    return 6;
}
