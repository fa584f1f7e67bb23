/* Threads that each wait in a call that a tracer can break off. All are woken at the end of input;
   none may have been woken before, and none may have failed. */
#include "trap.h"
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

static int word;
static atomic_int over;
static int semaphores;

static int ready_pipe(int *to)
{
    int ends[2];
    check(pipe(ends) == 0);
    *to = ends[1];
    return ends[0];
}

static long waits_poll(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, -1);
}

static long waits_poll_for_long(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, 90000);
}

static long waits_select(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, NULL);
}

static long waits_read(int fd)
{
    char byte;
    return read(fd, &byte, 1);
}

static long waits_epoll(int fd, int timeout)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(0);
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    return epoll_wait(epoll, &event, 1, timeout);
}

static long waits_epoll_for_ever(int fd)
{
    return waits_epoll(fd, -1);
}

static long waits_epoll_for_long(int fd)
{
    return waits_epoll(fd, 90000);
}

static long waits_futex(int fd)
{
    (void)fd;
    while (!atomic_load(&over)) {
        long got = syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
        if (got != 0)
            return errno == EAGAIN ? 1 : got;
        check(atomic_load(&over));
    }
    return 1;
}

static long waits_semaphore(int fd)
{
    (void)fd;
    struct sembuf take = {.sem_num = 0, .sem_op = -1};
    return semop(semaphores, &take, 1) == 0 ? 1 : -1;
}

static long waits_sleep(int fd)
{
    (void)fd;
    struct timespec time = {.tv_sec = 2}, begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    long got = nanosleep(&time, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took = end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9;
    return got == 0 && took >= 2 ? 1 : -1;
}

struct waiter {
    const char *name;
    long (*wait)(int fd);
    int fd, to;
    long got;
    int error;
    pthread_t thread;
};

static struct waiter waiters[] = {
    {.name = "poll", .wait = waits_poll},
    {.name = "poll for long", .wait = waits_poll_for_long},
    {.name = "select", .wait = waits_select},
    {.name = "read", .wait = waits_read},
    {.name = "epoll", .wait = waits_epoll_for_ever},
    {.name = "epoll for long", .wait = waits_epoll_for_long},
    {.name = "futex", .wait = waits_futex},
    {.name = "semaphore", .wait = waits_semaphore},
    {.name = "sleep", .wait = waits_sleep},
};

#define COUNT (sizeof waiters / sizeof *waiters)

static void *run(void *argument)
{
    struct waiter *own = argument;
    errno = 0;
    own->got = own->wait(own->fd);
    own->error = errno;
    return NULL;
}

int main(void)
{
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    check(semaphores >= 0);
    for (size_t at = 0; at < COUNT; at++) {
        waiters[at].fd = ready_pipe(&waiters[at].to);
        check(pthread_create(&waiters[at].thread, NULL, run, &waiters[at]) == 0);
    }
    usleep(200000);
    puts("waiting");
    fflush(stdout);
    char line[64];
    if (fgets(line, sizeof line, stdin) == NULL)
        clearerr(stdin);
    atomic_store(&over, 1);
    struct sembuf give = {.sem_num = 0, .sem_op = 1};
    check(semop(semaphores, &give, 1) == 0);
    for (size_t at = 0; at < COUNT; at++)
        check(write(waiters[at].to, "x", 1) == 1);
    word = 1;
    syscall(SYS_futex, &word, FUTEX_WAKE, 9, NULL, NULL, 0);
    for (size_t at = 0; at < COUNT; at++) {
        struct waiter *own = &waiters[at];
        check(pthread_join(own->thread, NULL) == 0);
        if (own->got != 1)
            printf("%s: %ld, %s\n", own->name, own->got, strerror(own->error));
    }
    semctl(semaphores, 0, IPC_RMID);
    mark("woken");
    puts("done");
    return 0;
}
