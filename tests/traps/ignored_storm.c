/* A process is blocked in a call while it is sent a signal that it ignores, thousands of times:
   no call may notice, and one with a timeout must end in time.
   ignored_storm CALL SIGNAL (default|ignore) */
#include "trap.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

static int ends[2], sockets[2], epoll, semaphores;

/* Shared with the sender: a futex, and whether the call has ended. */
static volatile struct {
    int word, ended;
} *shared;

static const struct timespec SHORT = {.tv_nsec = 400 * 1000 * 1000}, LONG = {.tv_sec = 60};

/* Makes the named call, which blocks until `release`, or for the time SHORT. */
static long block(const char *call)
{
    char byte;
    struct epoll_event event;
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    struct sembuf down = {.sem_op = -1};
    sigset_t urgent;
    if (!strcmp(call, "read"))
        return read(ends[0], &byte, 1);
    if (!strcmp(call, "recv with a timeout"))
        return recv(sockets[0], &byte, 1, 0);
    if (!strcmp(call, "epoll_wait"))
        return epoll_wait(epoll, &event, 1, -1);
    if (!strcmp(call, "epoll_wait with a timeout"))
        return epoll_wait(epoll, &event, 1, 60 * 1000);
    if (!strcmp(call, "poll"))
        return poll(&end, 1, -1);
    if (!strcmp(call, "semop"))
        return semop(semaphores, &down, 1);
    if (!strcmp(call, "futex"))
        return syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, NULL, NULL, 0);
    if (!strcmp(call, "sigtimedwait")) {
        sigemptyset(&urgent);
        sigaddset(&urgent, SIGRTMIN);
        return sigtimedwait(&urgent, NULL, &LONG);
    }
    if (!strcmp(call, "nanosleep, to its end"))
        return nanosleep(&SHORT, NULL);
    if (!strcmp(call, "epoll_wait, to its end"))
        return epoll_wait(epoll, &event, 1, 400);
    if (!strcmp(call, "semtimedop, to its end"))
        return semtimedop(semaphores, &down, 1, &SHORT);
    check(!"a known call");
    return -1;
}

static void prepare(void)
{
    sigset_t urgent;
    struct epoll_event event = {.events = EPOLLIN};
    struct timeval at_most = {.tv_sec = 60};
    check(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    check(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &at_most, sizeof at_most) == 0);
    epoll = epoll_create1(0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(epoll >= 0 && semaphores >= 0 && shared != MAP_FAILED);
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGRTMIN);
    check(sigprocmask(SIG_BLOCK, &urgent, NULL) == 0);
}

static void release(pid_t blocked)
{
    struct sembuf up = {.sem_op = 1};
    check(write(ends[1], "x", 1) == 1 && write(sockets[1], "x", 1) == 1);
    check(semop(semaphores, &up, 1) == 0);
    shared->word = 1;
    check(syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0);
    check(kill(blocked, SIGRTMIN) == 0);
}

static double now(void)
{
    struct timespec time;
    check(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Sends until well after the call has begun, then releases it; or until it has ended. A slow machine sends fewer. */
static void storm(pid_t blocked, int number, int to_its_end)
{
    double begun = now();
    for (int sent = 0; to_its_end ? !shared->ended && now() - begun < 20
                                  : now() - begun < (sent < 3000 ? 5 : 0.3); sent++) {
        check(kill(blocked, number) == 0);
        if (sent % 64 == 0)
            usleep(200);
    }
    if (!to_its_end)
        release(blocked);
    _exit(0);
}

int main(int count, char **words)
{
    check(count == 4);
    int number = atoi(words[2]), interrupted = 0, status;
    prepare();
    check(signal(number, !strcmp(words[3], "ignore") ? SIG_IGN : SIG_DFL) != SIG_ERR);
    double begun = now();
    pid_t blocked = getpid(), sender = fork();
    check(sender >= 0);
    if (sender == 0)
        storm(blocked, number, strstr(words[1], "to its end") != NULL);
    while (block(words[1]) == -1 && errno == EINTR)
        interrupted++;
    double took = now() - begun;
    shared->ended = 1;
    check(waitpid(sender, &status, 0) == sender && status == 0);
    check(semctl(semaphores, 0, IPC_RMID) == 0);
    printf("interrupted %d times, %s\n", interrupted,
           took < 0.25 ? "too short" : took < 10 ? "in time" : "too late");
    return 0;
}
