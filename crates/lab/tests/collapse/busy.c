// A program with as much under way as one can have: see main. Prints `ready`, and on SIGUSR1 its
// account, in which anything lost or changed would show.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long ticks, overruns, queued_in_order, queued_last;
static volatile int asked, errors;
static unsigned char *memory;
static size_t bytes;

static void tick(int signal, siginfo_t *info, void *context) {
    ticks++;
    overruns += info->si_overrun;
}

static void queued(int signal, siginfo_t *info, void *context) {
    if (info->si_value.sival_int == queued_last + 1) queued_in_order++;
    queued_last = info->si_value.sival_int;
}

static void ask(int signal) { asked = 1; }

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static uint64_t sum(void) {
    uint64_t sum = 14695981039346656037ull;
    for (size_t at = 0; at < bytes; at += 64) sum = (sum ^ memory[at]) * 1099511628211ull;
    return sum;
}

// Sleeps again and again: each sleep its whole time, and without an error.
static void *sleeper(void *unused) {
    for (;;) {
        uint64_t from = now();
        struct timespec time = {0, 50000000};
        if (nanosleep(&time, NULL) != 0) errors |= 1;
        if (now() - from < 50000000) errors |= 2;
    }
}

static void *poller(void *unused) {
    for (;;) {
        uint64_t from = now();
        if (poll(NULL, 0, 50) != 0) errors |= 4;
        if (now() - from < 50000000) errors |= 8;
    }
}

// Registers of every kind, floating point too, against the same computed once more.
static void *computer(void *unused) {
    volatile double expected = 0;
    for (int round = 0;; round++) {
        double x = 1.0;
        uint64_t h = 88172645463325252ull;
        for (int i = 0; i < 100000; i++) {
            x = x * 1.0000001 + 1e-9 * i;
            h ^= h << 13, h ^= h >> 7, h ^= h << 17;
        }
        double value = x + (double)(h >> 11);
        if (round == 0) expected = value;
        else if (value != expected) errors |= 16;
    }
}

static int word;
static void *waiter(void *unused) {
    for (;;)
        if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL) != 0) errors |= 32;
}

static void *epoller(void *unused) {
    int epoll = epoll_create1(0);
    struct epoll_event event;
    for (;;)
        if (epoll_wait(epoll, &event, 1, -1) < 0) errors |= 64;
}

static void start(void *(*body)(void *)) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (pthread_create(&thread, NULL, body, NULL)) abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int main(int count, char **words) {
    bytes = atol(words[1]) << 20;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at++) memory[at] = at * 2654435761u >> 13;
    // Small pages, in which huge ones are allowed again.
    madvise(memory, bytes, MADV_HUGEPAGE);
    uint64_t before = sum();
    struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    action.sa_sigaction = queued;
    sigaction(SIGRTMIN, &action, NULL);
    signal(SIGUSR1, ask);
    void *(*bodies[])(void *) = {sleeper, poller, computer, waiter, epoller};
    int threads = atoi(words[2]);
    for (int at = 0; at < threads; at++) start(bodies[at]);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec every = {{0, 1000000}, {0, 1000000}};
    uint64_t from = now();
    timer_settime(timer, 0, &every, NULL);
    puts("ready");
    fflush(stdout);
    while (!asked) {
        // Small pages again, for the next time that they are collapsed.
        const size_t fresh = 8 << 20;
        char *more = mmap(NULL, fresh, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(more, fresh, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < fresh; at += 4096) more[at] = 1;
        madvise(more, fresh, MADV_HUGEPAGE);
        // Computes, and is mostly in user mode when a signal comes.
        for (int times = 0; times < 10; times++)
            if (before != sum()) errors |= 128;
        for (size_t at = 0; at < fresh; at += 4096)
            if (more[at] != 1) errors |= 256;
        munmap(more, fresh);
    }
    memset(&every, 0, sizeof every);
    timer_settime(timer, 0, &every, NULL);
    uint64_t expired = (now() - from) / 1000000;
    printf("expired %lu counted %ld queued %ld errors %d same %d\n", expired, ticks + overruns,
           queued_in_order, errors, before == sum());
    fflush(stdout);
    return 0;
}
