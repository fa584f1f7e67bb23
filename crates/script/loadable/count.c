#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "count.h"
#include "known.h"

/* Shared by all shells of the command: shells, starts of other programs, starts of tools. */
static struct numbers {
    uint64_t shells, others, starts[TOOLS_KNOWN][COUNTED];
} *numbers;

/* The variable names a descriptor of becalm's; among other processes (a PID namespace) it may be
   another's. Only memory has seals, and what can be cut short is not safe to map. */
static bool is_becalms(int file, size_t size)
{
    struct stat about;
    int seals = fcntl(file, F_GET_SEALS);
    return seals > 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW) &&
           fstat(file, &about) == 0 && about.st_size == (off_t)size;
}

void count_in_file(void)
{
    const char *path = getenv("BECALM_BUILTINS_COUNT");
    bool is_one = path && strncmp(path, "/proc/", 6) == 0;
    int file = is_one ? open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    size_t size = sizeof *numbers;
    if (is_becalms(file, size)) {
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

void count(int tool, enum counted what, int by)
{
    if (numbers)
        add(&numbers->starts[tool][what], by);
}

void count_other(int by)
{
    if (numbers)
        add(&numbers->others, by);
}
