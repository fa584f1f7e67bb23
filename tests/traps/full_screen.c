/* As vi and less do: on SIGTSTP it puts the terminal in order, stops itself, and draws again
   when it is continued. Ends with status 11 when it reads a q. */
#include "trap.h"

static void say(const char *line)
{
    check(write(1, line, strlen(line)) > 0);
}

static void on_stop(int number)
{
    sigset_t just_this;
    say("[tidied]\n");
    signal(number, SIG_DFL);
    raise(number);
    sigemptyset(&just_this);
    sigaddset(&just_this, number);
    sigprocmask(SIG_UNBLOCK, &just_this, NULL);
    signal(number, on_stop);
    say("[drawn again]\n");
}

int main(void)
{
    char byte;
    check(signal(SIGTSTP, on_stop) != SIG_ERR);
    say("[drawn]\n");
    for (;;) {
        ssize_t got = read(0, &byte, 1);
        check(got > 0 || (got == -1 && errno == EINTR));
        if (got > 0 && byte == 'q')
            return 11;
    }
}
