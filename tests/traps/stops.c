/* A child with two threads stops, by each signal that stops. Its parent must see the stop, both
   threads must stand still, SIGCONT must let both go on, and a stopped child can be killed. */
#include "trap.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

static atomic_long *ticks;

static void *tick(void *unused)
{
    for (;;) {
        mark("tick");
        atomic_fetch_add(ticks, 1);
    }
    return unused;
}

static void nap(void)
{
    struct timespec time = {.tv_nsec = 50 * 1000 * 1000};
    check(nanosleep(&time, NULL) == 0);
}

static void wait_for_a_tick(void)
{
    for (long before = atomic_load(ticks); atomic_load(ticks) == before;)
        sched_yield();
}

static void expect(pid_t child, int options, int wanted)
{
    int status;
    check(waitpid(child, &status, options) == child);
    if (status != wanted)
        fprintf(stderr, "status %#x, not %#x\n", status, wanted);
    check(status == wanted);
}

int main(void)
{
    static const int stopping[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
    ticks = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(ticks != MAP_FAILED);
    /* An orphaned process group ignores SIGTSTP and its kin: the child's is not, as its parent
       is in another group of the same session. */
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        pthread_t thread;
        check(setpgid(0, 0) == 0);
        check(!pthread_create(&thread, NULL, tick, NULL));
        for (;;)
            pause();
    }
    wait_for_a_tick();
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) {
        check(kill(child, stopping[i]) == 0);
        expect(child, WUNTRACED, stopping[i] << 8 | 0x7f);
        long before = atomic_load(ticks);
        nap();
        check(atomic_load(ticks) == before);
        check(kill(child, SIGCONT) == 0);
        expect(child, WCONTINUED, 0xffff);
        wait_for_a_tick();
    }
    check(kill(child, SIGSTOP) == 0);
    expect(child, WUNTRACED, SIGSTOP << 8 | 0x7f);
    check(kill(child, SIGKILL) == 0);
    expect(child, WUNTRACED, SIGKILL);
    puts("stopped, continued, killed");
    return 0;
}
