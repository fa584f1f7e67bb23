/* What a configure script has just compiled, and runs: (eval ./conftest) 2>&5. */
#pragma once

#include <stdbool.h>

/* Whether a file is such a program, and cannot tell which process started it. */
bool is_probe(const char *path);
