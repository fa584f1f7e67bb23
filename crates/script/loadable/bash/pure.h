/* A command whose all is what it says: it changes nothing, and its words are what they are in a
   child. */
#pragma once

#include <stdbool.h>

#include "../request.h"

/* Whether, at this moment, a child does and says no more than its commands do. */
bool shell_adds_nothing(void);

/* Says into a capture what a pipeline of such commands would say. False: it is something else, and
   nothing has happened. */
bool run_purely(const char *text, struct capture *said, int *status);
