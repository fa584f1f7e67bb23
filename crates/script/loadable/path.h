/* Paths as gnulib takes them apart. */
#pragma once

#include <stddef.h>

/* Where a path's last component begins, with the slashes behind it; at its end if it has none. */
const char *last_component(const char *path);

/* How long a name is without the slashes at its end; a lone slash stays. */
size_t without_slashes(const char *name);
