/* Ends with upper halves of vector registers in use, or not, in the ways in which a process ends.
   It checks, too, that of its threads and children only the first thread is traced.
   upper_halves (clean | dirty | by-thread | by-child | exec | exec-by-thread | first-ends | stops |
   signals) */
#include "trap.h"
#include <pthread.h>
#include <sys/time.h>

static char *self;
static pthread_t first;

static void dirty(void)
{
#ifdef __x86_64__
    static const double four[4] __attribute__((aligned(32))) = {1, 2, 3, 4};
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vmovapd %0, %%ymm3" : : "m"(four) : "xmm3");
#endif
}

static void clean(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper" : : : "memory");
#endif
}

/* A word of the calling thread's own status. */
static long own(const char *name)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/thread-self/status", "r");
    check(file);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            value = atol(line + strlen(name));
    fclose(file);
    return value;
}

/* The state of a process, as in ps(1). */
static char state(pid_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    check(file && fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    return strrchr(text, ')')[2];
}

static void *leave_dirty(void *unused)
{
    check(own("TracerPid:") == 0);
    dirty();
    return unused;
}

static void *execute(void *unused)
{
    execl(self, self, "dirty", NULL);
    check(!"exec returned");
    return unused;
}

static void *end_it(void *unused)
{
    check(!pthread_join(first, NULL));
    clean();
    _exit(0);
    return unused;
}

static void start(void *(*run)(void *))
{
    pthread_t thread;
    check(!pthread_create(&thread, NULL, run, NULL));
    if (run == leave_dirty)
        check(!pthread_join(thread, NULL));
}

static void by_child(void)
{
    int status;
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        leave_dirty(NULL);
        _exit(5);
    }
    check(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
}

/* A child sees it stopped, and that it stays so for a while, and has it go on. */
static void stop(void)
{
    pid_t stopped = getpid(), child = fork();
    check(child >= 0);
    if (child == 0) {
        while (!strchr("Tt", state(stopped)))
            usleep(1000);
        usleep(200 * 1000);
        check(strchr("Tt", state(stopped)));
        check(kill(stopped, SIGCONT) == 0);
        _exit(0);
    }
    check(raise(SIGSTOP) == 0);
    check(waitpid(child, NULL, 0) == child);
}

static volatile sig_atomic_t signals;

static void count_signal(int unused)
{
    (void)unused;
    signals++;
}

/* Gets thousands of signals, one each 100 us. */
static void get_signals(void)
{
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    check(signal(SIGALRM, count_signal) != SIG_ERR);
    check(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (signals < 5000)
        ;
    check(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

int main(int count, char **words)
{
    check(count == 2);
    self = words[0];
    first = pthread_self();
    const char *how = words[1];
    if (!strcmp(how, "dirty"))
        dirty();
    else if (!strcmp(how, "by-thread"))
        start(leave_dirty), clean();
    else if (!strcmp(how, "by-child"))
        by_child(), clean();
    else if (!strcmp(how, "exec"))
        dirty(), execl(self, self, "clean", NULL);
    else if (!strcmp(how, "exec-by-thread"))
        start(execute), pause();
    else if (!strcmp(how, "first-ends"))
        start(end_it), dirty(), syscall(SYS_exit, 0);
    else if (!strcmp(how, "stops"))
        stop(), dirty();
    else if (!strcmp(how, "signals"))
        get_signals(), dirty();
    else
        clean();
    _exit(0);
}
