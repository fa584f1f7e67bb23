/* What each call on a tree costs, seen by the caller.
 *
 *   probe TREE FIRST COUNT
 *
 * Asks for COUNT of TREE's files (file-000000 …, from number FIRST), each for the first time:
 * stat of a name that is there, of one that is not, open and close. Prints a line each: the name,
 * and the 50th and 95th percentile in nanoseconds. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static void say(const char *what, long *took, int count)
{
    qsort(took, count, sizeof *took, by_size);
    printf("%s %ld %ld\n", what, took[count / 2], took[count * 95 / 100]);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int first = atoi(argv[2]), count = atoi(argv[3]);
    long *took = malloc(count * sizeof *took);
    char path[4096];
    struct stat stat_of;

    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/file-%06d", argv[1], first + i);
        long start = now();
        if (stat(path, &stat_of) != 0)
            return perror(path), 1;
        took[i] = now() - start;
    }
    say("stat", took, count);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/none-%06d", argv[1], first + i);
        long start = now();
        if (stat(path, &stat_of) == 0)
            return 1;
        took[i] = now() - start;
    }
    say("missing", took, count);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/file-%06d", argv[1], first + i);
        long start = now();
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            return perror(path), 1;
        took[i] = now() - start;
        close(fd);
    }
    say("open", took, count);
    return 0;
}
