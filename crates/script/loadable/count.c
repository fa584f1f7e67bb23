#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "count.h"
#include "known.h"

/* Shared by all shells of the command: shells, starts of other programs, starts of tools. */
static struct numbers {
    uint64_t shells, others, starts[TOOLS_KNOWN][COUNTED];
} *numbers;

void count_in_file(void)
{
    const char *path = getenv("BECALM_BUILTINS_COUNT");
    int file = path ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
    struct stat about;
    if (file < 0)
        return;
    size_t size = sizeof *numbers;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == (off_t)size) {
        void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        numbers = mapped == MAP_FAILED ? NULL : mapped;
    }
    close(file);
}

static void add(uint64_t *number, int by)
{
    __atomic_add_fetch(number, (int64_t)by, __ATOMIC_RELAXED);
}

void count_shell(void)
{
    if (numbers)
        add(&numbers->shells, 1);
}

void count(int tool, enum counted what)
{
    if (numbers)
        add(&numbers->starts[tool][what], 1);
}

void count_other(int by)
{
    if (numbers)
        add(&numbers->others, by);
}
