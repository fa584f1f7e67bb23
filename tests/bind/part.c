/* A library of a crafted case: it says so when it is loaded, and answers with where it lies.

   PART  the function that it offers
   SAYS  what it says and answers, a string
   ALSO  another function with the same answer, to be offered by several libraries (optional) */

#include <stdio.h>

const char *PART(void) { return SAYS; }

#ifdef ALSO
const char *ALSO(void) { return SAYS; }
#endif

__attribute__((constructor)) static void loaded(void) { printf("loaded: %s\n", SAYS); }
