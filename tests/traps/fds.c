/* Prints every open descriptor: its flags, what it is, where it stands. Prints to standard
   output, or to the descriptor given: fds [NUMBER] */
#include "trap.h"
#include <sys/stat.h>

int main(int count, char **words)
{
    int to = count > 1 ? atoi(words[1]) : 1;
    for (int fd = 0; fd < 1024; fd++) {
        struct stat file;
        if (fstat(fd, &file) == -1)
            continue;
        dprintf(to, "%d: type %o cloexec %d flags %o at %ld\n", fd, file.st_mode & S_IFMT,
                fcntl(fd, F_GETFD), fcntl(fd, F_GETFL), (long)lseek(fd, 0, SEEK_CUR));
    }
    return 0;
}
