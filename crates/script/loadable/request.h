/* A command line that bash has expanded: a program's name, options and operands. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct request {
    char **argv;     /* what the program would get; always null at its end */
    int argc;
    char *const *envp; /* the program's variables */
    int first;       /* the first operand, once options() has said true */
    char options[8]; /* the options given, a letter each */
    bool no_input;   /* standard input is not for it to read */
    bool is_filter;  /* it reads these bytes instead */
    const char *in;
    size_t in_size;
    int status;      /* the program's, where all is done */
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
   and leaves in the request whatever the program has to be asked to do. True: nothing is left, and
   the program's status would have been the request's. */
typedef bool act(struct request *request);

act act_basename, act_cat, act_chmod, act_cp, act_cut, act_date, act_dirname, act_expr, act_grep,
    act_head, act_ln, act_ls, act_mkdir, act_mv, act_readlink, act_realpath, act_rm, act_rmdir, act_sed,
    act_sort, act_tail, act_touch, act_tr, act_uname, act_wc;

/* Writes to standard output, as a program that writes once. False: nothing was written. */
bool say(const char *bytes, size_t size);

/* What a command substitution collects. */
struct capture {
    char bytes[16384];
    size_t size;
};

/* From now on, what is said goes there; NULL: to standard output again. */
void capture(struct capture *into);

bool is_capturing(void);

/* Whether what is written to a file may have a limit: beyond it, SIGXFSZ would end the shell and not the
   program. */
bool size_is_limited(void);

/* Whether that much can be written at once, as far as can be seen before. */
bool can_say(size_t size);
