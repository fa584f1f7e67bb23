/* What a tool reads, all of it: files, or standard input where all that will ever be in it is there
   already. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "request.h"

enum { MOST_INPUT = 65536 }; /* bytes */

/* What a filter has made of its input, one at a time: each shell has it, and may have little (ulimit -d). */
extern char made[MOST_INPUT + 1];

struct input {
    char *bytes;
    size_t size;
    bool is_pipe, is_file;          /* what standard input is, if it was read */
    size_t stdin_from, stdin_size;  /* where in the bytes that is */
    bool joints_end;                /* each part but the last ends with a newline */
};

/* Reads the operands, or standard input where there are none. False: nothing was taken. */
bool take_input(struct request *request, struct input *input);

/* It is not wanted after all: the program will read it. */
void give_back(const struct input *input);

/* All of it has been read. */
void input_was_read(const struct input *input);

/* Writes what was made of it; if that cannot be, gives it back. */
bool say_for(const struct input *input, const char *bytes, size_t size);
