/* Children with eight busy threads are killed in the middle of their calls, again and again. */
#include "trap.h"
#include <pthread.h>

static int ends[2];

static void *busy(void *unused)
{
    mark("busy");
    check(write(ends[1], "x", 1) == 1);
    for (;;)
        mark("busy");
    return unused;
}

int main(void)
{
    check(pipe(ends) == 0);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = fork();
        check(child >= 0);
        if (child == 0) {
            pthread_t thread;
            for (int t = 0; t < 8; t++)
                check(!pthread_create(&thread, NULL, busy, NULL));
            /* Every other time the first thread is gone, and a zombie, when the end comes. */
            if (i % 2)
                pthread_exit(NULL);
            pause();
        }
        char bytes[8];
        for (int got = 0; got < 8;) {
            int more = read(ends[0], bytes, 8 - got);
            check(more > 0);
            got += more;
        }
        check(kill(child, SIGKILL) == 0);
        check(waitpid(child, &status, 0) == child);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    puts("20 killed");
    return 0;
}
