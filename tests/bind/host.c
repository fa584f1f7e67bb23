/* A function that opens a library by its name, as plugins are opened, and answers what it answers.

   HOST   the function
   OPENS  the library's name, a string
   ASKS   the function in it that is asked, a string */

#include <dlfcn.h>

const char *HOST(void) {
    void *library = dlopen(OPENS, RTLD_NOW);
    if (!library) {
        return dlerror();
    }
    const char *(*answer)(void) = (const char *(*)(void))dlsym(library, ASKS);
    return answer ? answer() : dlerror();
}
