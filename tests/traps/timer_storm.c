/* A timer a thousand times a second, handled without SA_RESTART: a call may fail with EINTR
   only if a handler ran while it was under way. */
#include "trap.h"
#include <poll.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t runs;

static void count_run(int unused)
{
    (void)unused;
    runs++;
}

int main(void)
{
    int unexplained = 0, explained = 0, ends[2];
    struct sigaction action = {.sa_handler = count_run};
    struct itimerval every_ms = {{0, 1000}, {0, 1000}};
    check(pipe(ends) == 0);
    check(sigaction(SIGALRM, &action, NULL) == 0);
    check(setitimer(ITIMER_REAL, &every_ms, NULL) == 0);
    for (int i = 0; i < 400; i++) {
        char byte;
        int result = 0;
        sig_atomic_t before = runs;
        struct timespec nap = {.tv_nsec = 3 * 1000 * 1000};
        struct pollfd end = {.fd = ends[0], .events = POLLIN};
        switch (i % 4) {
        case 0: result = nanosleep(&nap, NULL); break;
        case 1: result = poll(&end, 1, 3); break;
        case 2: result = read(ends[0], &byte, 1); break;
        case 3: result = open("/nonexistent/timer", O_RDONLY); break;
        }
        if (i % 4 == 3)
            check(result == -1 && errno == ENOENT);
        else if (result == -1) {
            check(errno == EINTR);
            *(runs == before ? &unexplained : &explained) += 1;
        }
    }
    printf("unexplained EINTR: %d; any explained: %d\n", unexplained, explained > 0);
    return 0;
}
