/* Asks for paths that are not there, one after the other: opens NAME HOW_MANY */
#include "trap.h"

int main(int count, char **words)
{
    check(count == 3);
    int calls = atoi(words[2]);
    for (int i = 0; i < calls; i++)
        mark("%s-%d", words[1], i);
    printf("%s %d\n", words[1], calls);
    return 0;
}
