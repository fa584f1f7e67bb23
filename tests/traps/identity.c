/* Prints how the program was started, as it sees it itself. */
#include "trap.h"
#include <sys/auxv.h>

int main(int count, char **words)
{
    char exe[4096] = "", name[64] = "";
    for (int i = 0; i < count; i++)
        printf("argv[%d]: %s\n", i, words[i]);
    printf("execfn: %s\n", (char *)getauxval(AT_EXECFN));
    printf("secure: %lu\n", getauxval(AT_SECURE));
    check(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    printf("exe: %s\n", exe);
    FILE *comm = fopen("/proc/self/comm", "r");
    check(comm && fgets(name, sizeof name, comm));
    printf("comm: %s", name);
    printf("ids: %d %d %d %d\n", getuid(), geteuid(), getgid(), getegid());
    return 0;
}
