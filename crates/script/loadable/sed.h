/* A sed script of the commands that are done here. */
#pragma once

#include "pattern.h"

enum { MOST_COMMANDS = 24, MOST_PATTERNS = 32, MOST_TEXT = 4096 };

/* Characters of a replacement that are none: the match, or one of nine groups; a newline. */
enum { STANDS_FOR_GROUP = 1, STANDS_FOR_NEWLINE = STANDS_FOR_GROUP + 10 };

struct address {
    enum { EVERY, NUMBER, LAST, PATTERN } kind;
    size_t number;
    int pattern; /* which of the script's */
};

struct command {
    struct address from, to; /* the second is EVERY where there is none */
    bool negated;
    enum { INACTIVE, ACTIVE, CLOSED } range;
    char name;               /* { } p d q s y */
    int end;                 /* of a block: its "}" */
    int pattern;
    const char *replacement; /* with STANDS_FOR_… in it */
    bool global, print;
    size_t count;
    unsigned char map[256];
};

struct script {
    struct command commands[MOST_COMMANDS];
    regex_t patterns[MOST_PATTERNS];
    int count, pattern_count;
    bool silent;
    char text[MOST_TEXT];
    size_t used;
};

/* Understands a script. False: it is not of those, or wrong. It is to be freed either way. */
bool read_script(struct script *script, const char *text);

void free_script(struct script *script);
