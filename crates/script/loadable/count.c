#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "count.h"

/* Shared by all shells of the command. */
static uint64_t *numbers;

void count_in_file(void)
{
    const char *path = getenv("BECALM_BUILTINS_COUNT");
    int file = path ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
    struct stat about;
    if (file < 0)
        return;
    size_t size = COUNTED * sizeof *numbers;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == (off_t)size) {
        void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        numbers = mapped == MAP_FAILED ? NULL : mapped;
    }
    close(file);
}

void count(enum counted what)
{
    if (numbers)
        __atomic_add_fetch(&numbers[what], 1, __ATOMIC_RELAXED);
}
