/* A thread that is not the first of its process executes a program: the kernel ends the other
   threads and gives the caller the process's pid. The first thread is blocked in a call, and
   others are busy with calls, as it happens. */
#include "trap.h"
#include <pthread.h>

static char *self;

static void *busy(void *unused)
{
    for (;;)
        mark("busy");
    return unused;
}

static void *execute(void *unused)
{
    mark("before-exec");
    execl(self, "after", "after", NULL);
    check(!"exec returned");
    return unused;
}

int main(int count, char **words)
{
    if (count > 1) {
        mark("after-exec");
        puts("after exec");
        return 7;
    }
    self = words[0];
    pthread_t thread;
    for (int i = 0; i < 4; i++)
        check(!pthread_create(&thread, NULL, busy, NULL));
    check(!pthread_create(&thread, NULL, execute, NULL));
    pause();
    return 98;
}
