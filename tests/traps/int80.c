/* A 64-bit program calls the kernel by its 32-bit gate: number 5 is open there, and fstat in
   the 64-bit table. */
#include "trap.h"
#include <sys/mman.h>

static long int80(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

int main(void)
{
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
                     -1, 0);
    check(low != MAP_FAILED);
    strcpy(low, "/nonexistent/int80");
    printf("open: %ld\n", int80(5, (long)low, O_RDONLY, 0));
    strcpy(low, "/dev/null");
    long fd = int80(5, (long)low, O_RDONLY, 0);
    printf("opened: %d, closed: %ld\n", fd > 2, int80(6, fd, 0, 0));
    return 0;
}
