// Waits in every way, round after round, with fresh memory in small pages each time, and says
// whether each wait ended as it should and took its time. `waiting for X` asks for X: `time`,
// `signal` (SIGUSR1) or `line` (on standard input).
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MILLIS 100
#define KINDS 12

static volatile int signals;
static void on_signal(int signal) { signals++; }

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000ull + time.tv_nsec / 1000000;
}

static const char *wanted(int kind) {
    return kind < 9 ? "time" : kind < 11 ? "signal" : "line";
}

// The call's result; what it should be goes to `good`.
static int wait_for(int kind, int *good) {
    struct timespec time = {0, MILLIS * 1000000};
    struct timeval value = {0, MILLIS * 1000};
    sigset_t none, usr2;
    sigemptyset(&none);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    static int word, epoll = -1, pair[2];
    if (epoll < 0) {
        epoll = epoll_create1(0);
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
    }
    struct epoll_event event;
    char byte;
    int result;
    errno = 0;
    switch (kind) {
    case 0: result = nanosleep(&time, NULL); *good = result == 0; break;
    case 1: {
        clock_gettime(CLOCK_MONOTONIC, &time);
        time.tv_nsec += MILLIS * 1000000;
        if (time.tv_nsec >= 1000000000) time.tv_sec++, time.tv_nsec -= 1000000000;
        result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
        *good = result == 0;
        break;
    }
    case 2: result = poll(NULL, 0, MILLIS); *good = result == 0; break;
    case 3: result = ppoll(NULL, 0, &time, &none); *good = result == 0; break;
    case 4: result = select(0, NULL, NULL, NULL, &value); *good = result == 0; break;
    case 5:
        result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time);
        *good = result == -1 && errno == ETIMEDOUT;
        break;
    case 6: result = epoll_wait(epoll, &event, 1, MILLIS); *good = result == 0; break;
    case 7:
        result = sigtimedwait(&usr2, NULL, &time);
        *good = result == -1 && errno == EAGAIN;
        break;
    case 8:
        result = recv(pair[0], &byte, 1, 0);
        *good = result == -1 && errno == EAGAIN;
        break;
    case 9: {
        int before = signals;
        sigset_t usr1, mask;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        sigprocmask(SIG_BLOCK, &usr1, NULL);
        printf("waiting for signal\n");
        result = sigsuspend(&none);
        *good = result == -1 && errno == EINTR && signals == before + 1;
        // It is blocked again now.
        sigprocmask(SIG_SETMASK, NULL, &mask);
        *good = *good && sigismember(&mask, SIGUSR1);
        sigprocmask(SIG_UNBLOCK, &usr1, NULL);
        break;
    }
    case 10: {
        int before = signals;
        printf("waiting for signal\n");
        result = epoll_wait(epoll, &event, 1, -1);
        *good = result == -1 && errno == EINTR && signals == before + 1;
        break;
    }
    default: result = read(0, &byte, 1); *good = result == 1 && byte == '\n'; break;
    }
    return result;
}

int main(int count, char **words) {
    size_t bytes = 8 << 20;
    setvbuf(stdout, NULL, _IONBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    for (int round = 0; round < atoi(words[1]); round++) {
        int kind = round % KINDS, good = 0;
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        // Small pages, whatever the machine's default is, in which huge ones are allowed then.
        madvise(memory, bytes, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
        madvise(memory, bytes, MADV_HUGEPAGE);
        // The rounds of this program and of who watches it are the same.
        while (getchar() != '\n') {}
        uint64_t from = now();
        if (kind != 9 && kind != 10) printf("waiting for %s\n", wanted(kind));
        int result = wait_for(kind, &good), error = errno;
        uint64_t took = now() - from;
        if (kind < 9 && took < MILLIS) good = 0;
        for (size_t at = 0; at < bytes; at += 4096) good = good && memory[at] == 1;
        munmap(memory, bytes);
        printf("%s %d: %d errno %d after %lu ms\n", good ? "good" : "bad", kind, result, error, took);
    }
    return 0;
}
