/* Calls with the x32 bit: most kernels refuse them; the answer must be the kernel's own. */
#include "trap.h"

enum { X32 = 0x40000000 };

int main(void)
{
    errno = 0;
    long result = syscall(X32 + SYS_open, "/nonexistent/x32", O_RDONLY);
    printf("open: %ld %d\n", result, errno);
    errno = 0;
    result = syscall(X32 + SYS_close, -1);
    printf("close: %ld %d\n", result, errno);
    return 0;
}
