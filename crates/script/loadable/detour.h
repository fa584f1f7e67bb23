/* Functions of bash's own that are led elsewhere, by a jump at their start. */
#pragma once

#include <stdbool.h>

enum { JUMP = 12 };

struct detour {
    void *from;
    unsigned char jump[JUMP], began_with[JUMP];
};

/* From now on, calls of one function are calls of another. False: it stays as it is. */
bool lead(struct detour *detour, void *from, void *to);

/* Calls of it are its own again. */
bool lead_back(const struct detour *detour);

/* They are the other's once more. */
bool lead_again(const struct detour *detour);
