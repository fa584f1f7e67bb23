/* Whether bash's own calls of functions that are led elsewhere come there. */
#pragma once

#include <stdbool.h>

enum led { FINDING, DESCRIBING, LED };

/* One has come, with this name. */
void has_come(enum led, const char *name);

/* Asks bash, once, what a name is. False: a function's body stands where it is called, as
   an optimizer of the whole program (-flto) may put it. */
bool calls_are_led(void);
