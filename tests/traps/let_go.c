/* Waits until nobody traces it any more, and says what is left in each of its threads and in its
   child. Its threads sleep in calls that the kernel ends with EINTR when a tracer stops them, and
   must not return from them for that. Then it starts whatever can be started. */
#include "trap.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/time.h>

extern char **environ;
static int gate[2], childs[2];
static volatile int computed, goes_on = 1;
static volatile sig_atomic_t ticks;

static void tick(int signal) { ticks += signal == SIGALRM; }

static long number(const char *task, const char *name)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%s/status", task);
    FILE *file = fopen(path, "r");
    check(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            fclose(file);
            return strtol(line + strlen(name) + 1, NULL, 10);
        }
    fclose(file);
    return -1;
}

static void say(const char *who, const char *task)
{
    printf("%s: tracer %ld, filters %ld, no new privileges %ld\n", who, number(task, "TracerPid"),
           number(task, "Seccomp"), number(task, "NoNewPrivs"));
}

static void block_all(void)
{
    sigset_t all;
    sigfillset(&all);
    check(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
}

static char tasks[4][64];
static void name(int place) { snprintf(tasks[place], 64, "self/task/%ld", syscall(SYS_gettid)); }

static void *computes(void *place)
{
    block_all();
    name((int)(long)place);
    while (goes_on)
        computed++;
    return NULL;
}

static void *polls(void *place)
{
    struct epoll_event event = {.events = EPOLLIN}, got;
    int poll = epoll_create1(0);
    block_all();
    name((int)(long)place);
    check(poll >= 0 && epoll_ctl(poll, EPOLL_CTL_ADD, gate[0], &event) == 0);
    check(epoll_wait(poll, &got, 1, -1) == 1);
    return NULL;
}

static void *waits_for_a_signal(void *place)
{
    sigset_t one;
    block_all();
    name((int)(long)place);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    check(sigwaitinfo(&one, NULL) == SIGUSR1);
    return NULL;
}

static void *ends(void *unused) { return unused; }

int main(void)
{
    pthread_t threads[3], later;
    char child[32], line[8];
    setvbuf(stdout, NULL, _IOLBF, 0);
    check(pipe(gate) == 0 && pipe(childs) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        block_all();
        close(childs[1]);
        _exit(read(childs[0], line, 1) == 0 ? 5 : 6);
    }
    snprintf(child, sizeof child, "%d", pid);
    struct itimerval each = {{0, 1000}, {0, 1000}};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    check(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &each, NULL) == 0);
    void *(*bodies[])(void *) = {computes, polls, waits_for_a_signal};
    for (long i = 0; i < 3; i++)
        check(pthread_create(&threads[i], NULL, bodies[i], (void *)i) == 0);
    check(getpid() != 1);
    for (int i = 0; i < 3; i++)
        while (!*(volatile char *)tasks[i])
            ;
    printf("%s\n", number("self", "TracerPid") ? "traced" : "not traced");
    for (int tries = 0; tries < 60000; tries++) {
        int left = number("self", "TracerPid") != 0 || number(child, "TracerPid") != 0;
        for (int i = 0; i < 3; i++)
            left += number(tasks[i], "TracerPid") != 0;
        if (!left)
            break;
        usleep(1000);
    }
    say("first", "self");
    for (int i = 0; i < 3; i++)
        say("thread", tasks[i]);
    say("child", child);
    int before = computed, ticked = ticks;
    while (computed == before || ticks == ticked)
        ;
    goes_on = 0;
    check(pthread_kill(threads[2], SIGUSR1) == 0 && write(gate[1], "x", 1) == 1);
    for (int i = 0; i < 3; i++)
        check(pthread_join(threads[i], NULL) == 0);
    int status;
    check(close(childs[1]) == 0);
    while (waitpid(pid, &status, 0) < 0)
        check(errno == EINTR);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    check(pthread_create(&later, NULL, ends, NULL) == 0 && pthread_join(later, NULL) == 0);
    char *words[] = {"sh", "-c", "exit 4", NULL};
    check(posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ) == 0);
    while (waitpid(pid, &status, 0) < 0)
        check(errno == EINTR);
    check(WEXITSTATUS(status) == 4);
    each = (struct itimerval){0};
    setitimer(ITIMER_REAL, &each, NULL);
    execlp("grep", "grep", "TracerPid", "/proc/self/status", NULL);
    return 99;
}
