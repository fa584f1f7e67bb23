/* A process is blocked in a call, and gets signals: one that it ignores, behind it one that it handles; one
   that it handles, whose handler holds back one that it ignores; and only such as it ignores. The call returns
   EINTR where a handler has run, once, and only there.
   handler_beside_ignored CALL */
#include "trap.h"
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>

enum { BEHIND_AN_IGNORED_ONE, AN_IGNORED_ONE_HELD_BACK, ONLY_IGNORED_ONES, WAYS };

static int ends[2], epoll, semaphores;
static volatile int way, handled;

/* Shared with the sender: how many calls have ended. */
static atomic_int *ended;

static long block(const char *call)
{
    struct epoll_event event;
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    struct sembuf down = {.sem_op = -1};
    if (!strcmp(call, "epoll_wait"))
        return epoll_wait(epoll, &event, 1, -1);
    if (!strcmp(call, "poll"))
        return poll(&end, 1, -1);
    check(!strcmp(call, "semop"));
    return semop(semaphores, &down, 1);
}

static void release(const char *call)
{
    struct sembuf up = {.sem_op = 1};
    if (!strcmp(call, "semop"))
        check(semop(semaphores, &up, 1) == 0);
    else
        check(write(ends[1], "x", 1) == 1);
}

static void handle(int number)
{
    (void)number;
    handled++;
    if (way == AN_IGNORED_ONE_HELD_BACK)
        check(kill(getpid(), SIGHUP) == 0 && kill(getpid(), SIGWINCH) == 0);
}

/* Not while it is stopped by a tracer, which has another letter. */
static int sleeps(pid_t pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    check(file && fgets(line, sizeof line, file));
    fclose(file);
    return strrchr(line, ')')[2] == 'S';
}

/* Whether the call of this round ends within so many milliseconds. */
static int ends_within(int round, int millis)
{
    for (int waited = 0; waited < millis && atomic_load(ended) == round; waited++)
        usleep(1000);
    return atomic_load(ended) != round;
}

static void send(pid_t blocked, const char *call, int round)
{
    while (!sleeps(blocked))
        usleep(1000);
    if (round % WAYS != AN_IGNORED_ONE_HELD_BACK)
        check(kill(blocked, SIGHUP) == 0);
    if (round % WAYS == ONLY_IGNORED_ONES) {
        usleep(2000);
        check(kill(blocked, SIGWINCH) == 0);
        usleep(2000);
    } else {
        check(kill(blocked, SIGALRM) == 0);
    }
    /* One that has lost its EINTR waits on. */
    if (round % WAYS == ONLY_IGNORED_ONES || !ends_within(round, 5000))
        release(call);
    while (!ends_within(round, 1000))
        ;
}

int main(int count, char **words)
{
    check(count == 2);
    int rounds = 20 * WAYS, lost = 0, unexplained = 0, status;
    struct epoll_event event = {.events = EPOLLIN};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    check(sigaction(SIGALRM, &action, NULL) == 0 && signal(SIGHUP, SIG_IGN) != SIG_ERR);
    epoll = epoll_create1(0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    ended = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(pipe(ends) == 0 && epoll >= 0 && semaphores >= 0 && ended != MAP_FAILED);
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    pid_t blocked = getpid(), sender = fork();
    check(sender >= 0);
    for (int round = 0; sender == 0 && round < rounds; round++)
        send(blocked, words[1], round);
    if (sender == 0)
        _exit(0);
    for (int round = 0; round < rounds; round++) {
        char byte;
        long got;
        int before = handled;
        way = round % WAYS;
        while ((got = block(words[1])) == -1 && errno == EINTR && handled == before)
            unexplained++;
        if (handled != before && got != -1)
            lost++;
        if (got != -1 && strcmp(words[1], "semop"))
            check(read(ends[0], &byte, 1) == 1);
        atomic_fetch_add(ended, 1);
    }
    check(waitpid(sender, &status, 0) == sender && status == 0);
    check(semctl(semaphores, 0, IPC_RMID) == 0);
    printf("handled %d, EINTR lost %d, unexplained %d\n", handled, lost, unexplained);
    return 0;
}
