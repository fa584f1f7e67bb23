/* Short-lived children, one after the other, each with a call and a status: children HOW_MANY */
#include "trap.h"

int main(int count, char **words)
{
    check(count == 2);
    int children = atoi(words[1]);
    for (int i = 0; i < children; i++) {
        int status;
        pid_t child = fork();
        check(child >= 0);
        if (child == 0) {
            mark("child-%d", i);
            _exit(i & 0xff);
        }
        check(waitpid(child, &status, 0) == child);
        check(WIFEXITED(status) && WEXITSTATUS(status) == (i & 0xff));
    }
    printf("%d children\n", children);
    return 0;
}
