/* The first thread ends long before its process, whose status another thread decides. */
#include "trap.h"
#include <pthread.h>

static pthread_t first;

static void *go_on(void *unused)
{
    check(!pthread_join(first, NULL));
    for (int i = 0; i < 20; i++)
        mark("without-first-%d", i);
    puts("the second thread ends it");
    exit(9);
    return unused;
}

int main(void)
{
    pthread_t second;
    first = pthread_self();
    check(!pthread_create(&second, NULL, go_on, NULL));
    pthread_exit(NULL);
}
