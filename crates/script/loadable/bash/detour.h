/* Functions of bash's own that are led elsewhere, by a jump at their start. */
#pragma once

#include <stdbool.h>

#if defined __x86_64__
enum { JUMP = 12 };
#elif defined __aarch64__
enum { JUMP = 16 };
#endif

struct detour {
    void *from;
    unsigned char jump[JUMP], began_with[JUMP];
};

/* From now on, calls of one function are calls of another. False: it stays as it is. */
bool lead(struct detour *detour, void *from, void *to);

/* Calls of it are its own again. */
void lead_back(const struct detour *detour);

/* They are the other's once more. */
void lead_again(const struct detour *detour);
