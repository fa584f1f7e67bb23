/* Paths as gnulib takes them apart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where a path's last component begins, with the slashes behind it; at its end if it has none. */
const char *last_component(const char *path);

/* How long a name is without the slashes at its end; a lone slash stays. */
size_t without_slashes(const char *name);

/* Whether two of these paths end in the same name. */
bool two_have_one_name(char **paths, int count);
