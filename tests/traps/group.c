/* Prints its process group and session, which a test compares with what it asked for. */
#include "trap.h"

int main(void)
{
    printf("%d %d\n", getpgrp(), getsid(0));
    return 0;
}
