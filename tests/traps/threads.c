/* Many threads at once, each of which makes calls of its own: threads THREADS CALLS */
#include "trap.h"
#include <pthread.h>

static int calls;

static void *ask(void *number)
{
    for (int i = 0; i < calls; i++)
        mark("thread-%d-%d", (int)(long)number, i);
    return NULL;
}

int main(int count, char **words)
{
    check(count == 3);
    int threads = atoi(words[1]);
    pthread_t thread[threads];
    calls = atoi(words[2]);
    for (long i = 0; i < threads; i++)
        check(!pthread_create(&thread[i], NULL, ask, (void *)i));
    for (int i = 0; i < threads; i++)
        check(!pthread_join(thread[i], NULL));
    puts("joined");
    return 0;
}
