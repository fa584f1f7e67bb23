/* bash's own calls of functions of the C library. */
#pragma once

#include <stdbool.h>

/* Has calls of fork(), execve(), pipe(), waitpid() and open() come to this library. False: they cannot be
   found. */
bool take_over_calls(void);
