#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "detour.h"

#if defined __x86_64__
/* movabs $to,%rax; jmp *%rax */
static const unsigned char JUMP_CODE[JUMP] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
enum { TO = 2 };
#elif defined __aarch64__
/* ldr x16, to; br x16; to: */
static const unsigned char JUMP_CODE[JUMP] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6};
enum { TO = 8 };
#endif

static bool write_code(void *at, const unsigned char *code)
{
    long page = sysconf(_SC_PAGESIZE);
    char *from = (char *)((unsigned long)at & -page);
    size_t size = (char *)at + JUMP - from;
    if (mprotect(from, size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return false;
    memcpy(at, code, JUMP);
    __builtin___clear_cache((char *)at, (char *)at + JUMP);
    return mprotect(from, size, PROT_READ | PROT_EXEC) == 0;
}

bool lead(struct detour *detour, void *from, void *to)
{
    detour->from = from;
    memcpy(detour->began_with, from, JUMP);
    memcpy(detour->jump, JUMP_CODE, JUMP);
    memcpy(detour->jump + TO, &to, sizeof to);
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
