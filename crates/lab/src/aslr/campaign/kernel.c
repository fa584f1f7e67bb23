/* The repeated-pow test: each of nbStep steps calls libm's pow for nbValue values, nbRepeat times
 * over, and is timed. A line a rank, in seconds, in the published form:
 *
 *   CT: rank min max avg stddev : key=value ...
 *
 * Behind the colon: the processors on which it began and ended (cpu=first,last); what a loop of
 * integers in registers took beside each step (control=seconds); whether the upper halves of vector
 * registers were in use (dirty=0|1); where what lies (maps=name@address,...); and with
 * `--limit seconds`, if avg is above it, what it takes again in the same place, with one thing
 * changed (again=name@seconds,...).
 *
 * With -DWITH_MPI (mpicc), ranks begin together, and rank 0 prints all lines. */
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum { LINE = 1024, CONTROL = 20000 };

static long steps = 10, repeats = 100, values = 1000;
static double limit;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* It has no layout: nothing of it is in memory. */
static double control(void) {
    double start = now();
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < CONTROL; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        __asm__ volatile("" : "+r"(x));
    }
    return now() - start;
}

/* XINUSE bit 2 (XGETBV with ECX = 1, where CPUID leaf 0DH, subleaf 1 has EAX bit 2): what
 * NT_X86_XSTATE's XSTATE_BV shows from outside. -1 where the processor does not tell. */
static int upper_in_use(void) {
#ifdef __x86_64__
    uint32_t a = 1, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (!(c >> 27 & 1)) return -1; /* OSXSAVE */
    a = 0, c = 0;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (a < 13) return -1;
    a = 13, c = 1;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (!(a >> 2 & 1)) return -1;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(1));
    return a >> 2 & 1;
#else
    return -1;
#endif
}

static int clean_upper(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx")) {
        __asm__ volatile("vzeroupper" ::: "memory");
        return 1;
    }
#endif
    return 0;
}

struct times {
    double min, max, avg, stddev, control;
};

static double step(const double *value) {
    double sum = 0, start = now();
    for (long repeat = 0; repeat < repeats; repeat++)
        for (long at = 0; at < values; at++) sum += pow(value[at], 1.7 + value[at]);
    double took = now() - start;
    /* Neither may the sum be left out, nor anything of it be done before or after. */
    __asm__ volatile("" ::"x"(sum) : "memory");
    return took;
}

static struct times measure(const double *value, double *took) {
    struct times all = {.min = INFINITY};
    for (long at = 0; at < steps; at++) {
        took[at] = step(value);
        all.control += control() / steps;
        all.avg += took[at] / steps;
        if (took[at] < all.min) all.min = took[at];
        if (took[at] > all.max) all.max = took[at];
    }
    double squares = 0;
    for (long at = 0; at < steps; at++) squares += (took[at] - all.avg) * (took[at] - all.avg);
    all.stddev = steps > 1 ? sqrt(squares / (steps - 1)) : 0;
    return all;
}

static void only_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Slow: once more in the same place, then on another processor, then with clean upper halves. */
static void again(char *line, const double *value, double *took, int cpu) {
    cpu_set_t may;
    sched_getaffinity(0, sizeof may, &may);
    only_on(cpu);
    int length = sprintf(line, " again=nothing@%.9f", measure(value, took).avg);
    int other = (cpu + 1) % CPU_SETSIZE;
    while (other != cpu && !CPU_ISSET(other, &may)) other = (other + 1) % CPU_SETSIZE;
    if (other != cpu) {
        only_on(other);
        length += sprintf(line + length, ",cpu@%.9f", measure(value, took).avg);
        only_on(cpu);
    }
    if (clean_upper())
        sprintf(line + length, ",clean_upper@%.9f", measure(value, took).avg);
}

/* The first address of what the layout moves. */
static void maps(char *line) {
    static const char *names[] = {"/kernel", "/libm.so.6", "/libc.so.6", "[stack]", "[heap]"};
    FILE *file = fopen("/proc/self/maps", "r");
    char text[LINE];
    unsigned seen = 0;
    if (!file) return;
    line += sprintf(line, " maps=");
    while (fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = 0;
        for (unsigned at = 0; at < sizeof names / sizeof *names; at++) {
            size_t all = strlen(text), end = strlen(names[at]);
            if (seen >> at & 1 || all < end || strcmp(text + all - end, names[at])) continue;
            const char *name = names[at] + (*names[at] == '/');
            line += sprintf(line, "%s%s@0x%llx", seen ? "," : "", name, strtoull(text, 0, 16));
            seen |= 1u << at;
        }
    }
    fclose(file);
}

static int rank_of_environment(void) {
    static const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (unsigned at = 0; at < sizeof names / sizeof *names; at++)
        if (getenv(names[at])) return atoi(getenv(names[at]));
    return 0;
}

static void options(int argc, char **argv) {
    for (int at = 1; at + 1 < argc; at += 2) {
        if (!strcmp(argv[at], "--nbStep")) steps = atol(argv[at + 1]);
        if (!strcmp(argv[at], "--nbRepeat")) repeats = atol(argv[at + 1]);
        if (!strcmp(argv[at], "--nbValue")) values = atol(argv[at + 1]);
        if (!strcmp(argv[at], "--limit")) limit = atof(argv[at + 1]);
    }
    if (steps < 1 || repeats < 1 || values < 1) {
        fprintf(stderr, "kernel: nbStep, nbRepeat and nbValue are at least 1\n");
        exit(2);
    }
}

int main(int argc, char **argv) {
    int rank = rank_of_environment();
    options(argc, argv);
#ifdef WITH_MPI
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
#endif
    double *value = malloc(values * sizeof *value), *took = malloc(steps * sizeof *took);
    if (!value || !took) {
        fprintf(stderr, "kernel: out of memory\n");
        return 1;
    }
    for (long at = 0; at < values; at++) value[at] = 0.5 + (double)at / values;
#ifdef WITH_MPI
    MPI_Barrier(MPI_COMM_WORLD);
#endif
    step(value); /* Not counted: binds pow, touches pages. */
    int first = sched_getcpu(), dirty = upper_in_use();
    struct times all = measure(value, took);
    int last = sched_getcpu();

    char line[2 * LINE] = "";
    int length = snprintf(line, LINE, "CT: %d %.9f %.9f %.9f %.9f : cpu=%d,%d control=%.9f", rank,
                          all.min, all.max, all.avg, all.stddev, first, last, all.control);
    if (dirty >= 0) length += sprintf(line + length, " dirty=%d", dirty);
    if (limit > 0 && all.avg > limit) again(line + length, value, took, last);
    maps(line + strlen(line));
#ifdef WITH_MPI
    char *lines = rank == 0 ? malloc(size * sizeof line) : 0;
    MPI_Gather(line, sizeof line, MPI_CHAR, lines, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int at = 0; lines && at < size; at++) puts(lines + at * sizeof line);
    MPI_Finalize();
#else
    puts(line);
#endif
    return 0;
}
