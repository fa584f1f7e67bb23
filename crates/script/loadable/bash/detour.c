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

/* It stays writable: later, a limit (ulimit -d) may forbid that, and the function is still to be called. */
static bool make_writable(void *at)
{
    long page = sysconf(_SC_PAGESIZE);
    char *from = (char *)((unsigned long)at & -page);
    size_t size = (char *)at + JUMP - from;
    return mprotect(from, size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
}

static void write_code(void *at, const unsigned char *code)
{
    memcpy(at, code, JUMP);
    __builtin___clear_cache((char *)at, (char *)at + JUMP);
}

bool lead(struct detour *detour, void *from, void *to)
{
    detour->from = from;
    memcpy(detour->began_with, from, JUMP);
    memcpy(detour->jump, JUMP_CODE, JUMP);
    memcpy(detour->jump + TO, &to, sizeof to);
    if (!make_writable(from))
        return false;
    write_code(from, detour->jump);
    return true;
}

void lead_back(const struct detour *detour)
{
    write_code(detour->from, detour->began_with);
}

void lead_again(const struct detour *detour)
{
    write_code(detour->from, detour->jump);
}
