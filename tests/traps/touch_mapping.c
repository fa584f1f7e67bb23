/* Maps a file and touches each of its pages once: `one after the other`, or `scattered`. */
#include "trap.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDONLY);
    struct stat file;
    if (argc < 3 || fd < 0 || fstat(fd, &file) != 0)
        return 2;
    volatile char *at = mmap(NULL, file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return 3;
    long pages = file.st_size / 4096, sum = 0;
    /* A step that has no divisor in common with a power of two comes to every page once. */
    long step = strcmp(argv[2], "scattered") == 0 ? 7919 : 1;
    for (long page = 0; page < pages; page++)
        sum += at[page * step % pages * 4096];
    return sum == 1;
}
