/* A child goes to another root and asks there: chroot DIRECTORY */
#include "trap.h"

int main(int count, char **words)
{
    int status;
    check(count == 2);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        check(chroot(words[1]) == 0 && chdir("/") == 0);
        check(open("/inside", O_RDONLY) >= 0);
        mark("from-inside");
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child && status == 0);
    mark("from-outside");
    puts("inside and out");
    return 0;
}
