/* Maps a file and touches each of its pages once: one after the other (`sequential`), `scattered`,
   `moved` after it was mapped, or of `many` small mappings. */
#define _GNU_SOURCE
#include "trap.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { PAGE = 4096, SMALL = 1 << 20 };

/* Mappings of 1 MiB, as of libraries: each file is opened first. */
static int many(const char *name, long bytes) {
    long sum = 0;
    for (long offset = 0; offset < bytes; offset += SMALL) {
        int fd = open(name, O_RDONLY);
        volatile char *at = mmap(NULL, SMALL, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, offset);
        if (at == MAP_FAILED || close(fd) != 0)
            return 4;
        for (long place = 0; place < SMALL; place += PAGE)
            sum += at[place];
    }
    return sum == 1;
}

int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDONLY);
    struct stat file;
    if (argc < 3 || fd < 0 || fstat(fd, &file) != 0)
        return 2;
    if (strcmp(argv[2], "many") == 0)
        return many(argv[1], file.st_size);
    volatile char *at = mmap(NULL, file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
        return 3;
    if (strcmp(argv[2], "moved") == 0) {
        void *room = mmap(NULL, file.st_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        at = mremap((void *)at, file.st_size, file.st_size, MREMAP_MAYMOVE | MREMAP_FIXED, room);
        if (at == MAP_FAILED)
            return 5;
    }
    long pages = file.st_size / PAGE, sum = 0;
    /* A step that has no divisor in common with a power of two comes to every page once. */
    long step = strcmp(argv[2], "scattered") == 0 ? 7919 : 1;
    for (long page = 0; page < pages; page++)
        sum += at[page * step % pages * PAGE];
    return sum == 1;
}
