/* Read before all else (build.rs): with a compiler for glibc 2.38 or newer, functions that read numbers
   keep the names that older ones have, so that a library that was built there is loaded here. */
#include <features.h>
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0
