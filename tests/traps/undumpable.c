/* A program that forbids others to look into its memory, as ssh-agent and gpg-agent do. */
#include "trap.h"
#include <sys/prctl.h>

int main(void)
{
    mark("dumpable");
    check(prctl(PR_SET_DUMPABLE, 0) == 0);
    for (int i = 0; i < 10; i++)
        mark("undumpable-%d", i);
    check(prctl(PR_GET_DUMPABLE) == 0);
    puts("still undumpable");
    return 0;
}
