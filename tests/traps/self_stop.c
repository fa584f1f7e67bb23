/* Stops itself, as a shell's `suspend` does, and exits 12 once it is continued. */
#include "trap.h"

int main(void)
{
    check(raise(SIGSTOP) == 0);
    check(write(1, "[goes on]\n", 10) == 10);
    return 12;
}
