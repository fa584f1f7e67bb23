/* A thread that is not the first of its process executes a program: the kernel ends the other
   threads and gives the caller the process's pid. Others are busy with calls as it happens.
   exec_from_thread (first-waits | first-is-gone | all-execute) */
#include "trap.h"
#include <pthread.h>

static char *self;

/* Set once all threads are there: while one executes, the kernel starts no other (EAGAIN). */
static volatile int all_there;

static void *busy(void *unused)
{
    for (;;)
        mark("busy");
    return unused;
}

static void *execute(void *unused)
{
    while (!all_there)
        ;
    mark("before-exec");
    execl(self, "after", NULL);
    check(!"exec returned");
    return unused;
}

static void start(void *(*run)(void *))
{
    pthread_t thread;
    check(!pthread_create(&thread, NULL, run, NULL));
}

int main(int count, char **words)
{
    if (count == 1) {
        mark("after-exec");
        puts("after exec");
        return 7;
    }
    self = words[0];
    for (int i = 0; i < 4; i++)
        start(busy);
    for (int i = strcmp(words[1], "all-execute") ? 1 : 4; i > 0; i--)
        start(execute);
    all_there = 1;
    if (!strcmp(words[1], "first-is-gone"))
        pthread_exit(NULL);
    pause();
    return 98;
}
