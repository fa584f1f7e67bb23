/* The same pid, again and again: first for a process, then for a thread, in turn. Must run as
   the root of a pid namespace: pid_reuse HOW_MANY */
#include "trap.h"
#include <pthread.h>

static const pid_t WANTED = 4000;

static void *thread_asks(void *number)
{
    check(syscall(SYS_gettid) == WANTED);
    mark("reused-%d", (int)(long)number);
    return NULL;
}

int main(int count, char **words)
{
    check(count == 2);
    int last = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    check(last >= 0);
    for (long i = 0; i < atoi(words[1]); i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", WANTED - 1);
        check(pwrite(last, text, strlen(text), 0) > 0);
        if (i % 2) {
            pthread_t thread;
            check(!pthread_create(&thread, NULL, thread_asks, (void *)i));
            check(!pthread_join(thread, NULL));
            /* pthread_join returns when the thread is about to be gone, not when its number
               is free. */
            while (syscall(SYS_tgkill, getpid(), WANTED, 0) == 0)
                sched_yield();
            continue;
        }
        int status;
        pid_t child = fork();
        check(child >= 0);
        if (child == 0) {
            mark("reused-%ld", i);
            _exit(i & 0xff);
        }
        check(child == WANTED);
        check(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == (i & 0xff));
    }
    puts("reused");
    return 0;
}
