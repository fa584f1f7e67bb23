/* A command line that bash has expanded: a program's name, options and operands. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "bash.h"

struct request {
    char **argv;     /* what the program would get; always null at its end */
    int argc;
    int first;       /* the first operand, once options() has said true */
    char options[8]; /* the options given, a letter each */
};

/* Sees that all options are of those allowed, before all operands. False: ask the program. */
bool options(struct request *request, const char *allowed);

/* Whether an option was given. */
bool has(const struct request *request, char option);

/* How many operands are left. */
int left(const struct request *request);

/* The next operand. */
char *operand(const struct request *request);

/* The next operand needs nothing any more. */
void done(struct request *request);

/* Each does at once what its program would do with a request, as long as that is done in silence,
   and leaves in the request whatever the program has to be asked to do. True: nothing is left,
   and the program's status would have been 0. */
typedef bool act(struct request *request);

act act_basename, act_cat, act_chmod, act_dirname, act_ln, act_mkdir, act_mv, act_readlink,
    act_realpath, act_rm, act_rmdir, act_touch;

/* Writes to standard output, as a program that writes once. False: nothing was written. */
bool say(const char *bytes, size_t size);
