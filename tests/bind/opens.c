/* A program that opens what its arguments name, in their order: each says so itself when it is loaded. */

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    for (int at = 1; at < argc; at++)
        if (!dlopen(argv[at], RTLD_NOW)) puts(dlerror());
    return 0;
}
