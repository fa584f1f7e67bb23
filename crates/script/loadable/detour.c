#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "detour.h"

static bool write_code(void *at, const unsigned char *code)
{
    long page = sysconf(_SC_PAGESIZE);
    char *from = (char *)((unsigned long)at & -page);
    size_t size = (char *)at + JUMP - from;
    if (mprotect(from, size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return false;
    memcpy(at, code, JUMP);
    return mprotect(from, size, PROT_READ | PROT_EXEC) == 0;
}

bool lead(struct detour *detour, void *from, void *to)
{
    /* movabs $to,%rax; jmp *%rax */
    static const unsigned char jump[JUMP] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
    detour->from = from;
    memcpy(detour->began_with, from, JUMP);
    memcpy(detour->jump, jump, JUMP);
    memcpy(detour->jump + 2, &to, sizeof to);
    return write_code(from, detour->jump);
}

bool lead_back(const struct detour *detour)
{
    return write_code(detour->from, detour->began_with);
}

bool lead_again(const struct detour *detour)
{
    return write_code(detour->from, detour->jump);
}
