/* Real-time signals are queued: each arrives, lowest number first, in the order sent, with the
   value and the sender it was sent with; first by a handler, then by sigwaitinfo. */
#include "trap.h"

enum { EACH = 50, KINDS = 3 };

static int seen[EACH * KINDS], arrived;
static pid_t child;

static void take(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    if (info->si_code == SI_QUEUE && info->si_pid == child && arrived < EACH * KINDS)
        seen[arrived++] = (number - SIGRTMIN) * 1000 + info->si_value.sival_int;
}

/* Lets a child queue signals to us, which must all be blocked. */
static void let_child_send(void)
{
    pid_t parent = getpid();
    int status;
    child = fork();
    check(child >= 0);
    if (child == 0) {
        for (int i = 0; i < EACH; i++)
            for (int kind = KINDS - 1; kind >= 0; kind--)
                check(sigqueue(parent, SIGRTMIN + kind, (union sigval){.sival_int = i}) == 0);
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child && status == 0);
}

static void check_order(void)
{
    check(arrived == EACH * KINDS);
    for (int i = 0; i < arrived; i++)
        check(seen[i] == i / EACH * 1000 + i % EACH);
}

int main(void)
{
    sigset_t all;
    struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&all);
    for (int kind = 0; kind < KINDS; kind++)
        sigaddset(&all, SIGRTMIN + kind);
    /* All are masked while one is handled, or a handler would interrupt another's. */
    action.sa_mask = all;
    for (int kind = 0; kind < KINDS; kind++)
        check(sigaction(SIGRTMIN + kind, &action, NULL) == 0);
    check(sigprocmask(SIG_BLOCK, &all, NULL) == 0);

    let_child_send();
    check(sigprocmask(SIG_UNBLOCK, &all, NULL) == 0);
    check_order();

    check(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    let_child_send();
    for (arrived = 0; arrived < EACH * KINDS;) {
        siginfo_t info;
        check(sigwaitinfo(&all, &info) > 0);
        take(info.si_signo, &info, NULL);
    }
    check_order();
    printf("%d in order, twice\n", arrived);
    return 0;
}
