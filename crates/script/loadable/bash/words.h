/* Commands as they are written, of a kind whose words give in the shell what they give in a child. */
#pragma once

#include <stdbool.h>

#include "bash.h"

enum { MOST_STAGES = 4, MOST_WORDS = 64, MOST_REDIRECTIONS = 8, LONGEST_TEXT = 8192, DEEPEST = 2 };

/* "2>&1", "> word", ">> word". */
struct redirection {
    int descriptor, from; /* where there is no word */
    char *word;
    bool appends;
};

/* A pipeline's commands: words as they are written. */
struct pipeline {
    char text[LONGEST_TEXT];
    char *words[MOST_WORDS];
    int begins[MOST_STAGES + 1]; /* at which word */
    int stages;
    struct redirection redirections[MOST_REDIRECTIONS];
    int redirected;
    bool is_subshell;            /* one command, in parentheses, as bash prints it */
    int inner;                   /* so many of the redirections stand within */
};

/* The end of one word; NULL: there is something in it that is not understood. */
const char *skip_word(const char *at);

/* The first pipeline of "a || b || c", into LONGEST_TEXT bytes: all that is done, where it ends well.
   False: it is no such list, or the rest is not understood. */
bool take_first_of_list(const char *text, char *first);

/* Takes a pipeline apart. False: there is something in it that is not understood. */
bool read_pipeline(const char *text, struct pipeline *pipeline);

/* Whether it is one without parentheses and redirections. */
bool is_simple(const struct pipeline *pipeline);

/* Takes apart what eval would read of its words: one command, or nothing. */
bool read_eval(const WORD_LIST *words, struct pipeline *inner);

/* The words of a stage, expanded by bash as for any command. They are to be disposed of. */
WORD_LIST *expand(const struct pipeline *pipeline, int stage);

/* Whether a name is a builtin's that bash itself has. */
bool is_builtin_of_bash(const char *name);

/* The program that bash would execute, without a trace in its table of them. To be freed. */
char *program_of_word(const char *word);
