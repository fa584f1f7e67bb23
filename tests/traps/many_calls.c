/* Opens and stats paths that are not there, by many names, and reads an open file, each a third
   of the time: many_calls CALLS NAMES. Then waits until its input ends, so that a test can look
   at whoever watches. */
#include "trap.h"
#include <sys/stat.h>

int main(int count, char **words)
{
    check(count == 3);
    int calls = atoi(words[1]), names = atoi(words[2]);
    char byte;
    int empty = open("/dev/null", O_RDONLY);
    check(empty >= 0);
    for (int i = 0; i < calls; i++) {
        char path[160];
        struct stat file;
        int name = (int)((long)i * 7919 % names);
        snprintf(path, sizeof path,
                 "/nonexistent/spack/opt/linux-debian12-zen3/gcc-12.2.0/package-%d-abcdefgh/"
                 "lib/libname%d.so.%d", name % 997, name, name % 7);
        if (i % 3 == 0)
            check(read(empty, &byte, 1) == 0);
        else if (i % 3 == 1)
            check(stat(path, &file) == -1 && errno == ENOENT);
        else
            check(open(path, O_RDONLY) == -1 && errno == ENOENT);
    }
    puts("asked");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
