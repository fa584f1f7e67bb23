// What malloc keeps of a block that was freed: its random key; and that freeing it twice is noticed.
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    volatile size_t *block = malloc(64);
    free((void *)block);
    printf("%zx\n", block[1]);
    fflush(stdout);
    if (count > 1) free((void *)block);
    return 0;
}
