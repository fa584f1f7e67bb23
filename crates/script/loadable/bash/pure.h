/* A command whose all is what it says: it changes nothing, and its words are what they are in a
   child. */
#pragma once

#include <stdbool.h>

#include "../request.h"

/* Says into a capture what a pipeline of such commands would say. False: it is something else, and
   nothing has happened. */
bool run_purely(const char *text, struct capture *said, int *status);
