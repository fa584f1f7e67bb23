/* A daemon: forks twice, its parent exits 3 at once. It then waits until somebody writes to a
   fifo, makes its calls and exits: daemon FIFO HOW_MANY */
#include "trap.h"

int main(int count, char **words)
{
    check(count == 3);
    pid_t child = fork();
    check(child >= 0);
    if (child > 0)
        _exit(3);
    check(setsid() >= 0);
    child = fork();
    check(child >= 0);
    if (child > 0)
        _exit(0);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    char byte;
    int fifo = open(words[1], O_RDONLY);
    check(fifo >= 0 && read(fifo, &byte, 1) == 1);
    for (int i = 0; i < atoi(words[2]); i++)
        mark("daemon-%d", i);
    return 5;
}
