/* A program that asks the functions named by its arguments, in the order in which symbols are
   looked up, and prints their answers. The argument `-` waits until the input ends.

   REFERS  a function that it is linked against, so that it needs its version (optional) */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef const char *Answer(void);

#ifdef REFERS
Answer REFERS;
Answer *const refers = REFERS;
#endif

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-") == 0) {
            puts("waiting");
            fflush(stdout);
            while (getchar() != EOF) {
            }
            continue;
        }
        Answer *answer = (Answer *)dlsym(RTLD_DEFAULT, argv[i]);
        printf("%s: %s\n", argv[i], answer ? answer() : "nobody answers");
    }
    return 0;
}
