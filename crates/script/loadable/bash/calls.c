#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "start.h"
#include "subshell.h"
#include "substitute.h"

/* Whether the loader has made a page read-only after relocation: all of them, where a program's calls are
   bound at its start, and none where each is bound when it is made first. */
static bool is_read_only(const struct dl_phdr_info *program, ElfW(Addr) page)
{
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &program->dlpi_phdr[i];
        ElfW(Addr) from = program->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_RELRO)
            return page >= (from & -sysconf(_SC_PAGESIZE)) &&
                   page + sysconf(_SC_PAGESIZE) <= from + segment->p_memsz;
    }
    return false;
}

#if defined __x86_64__
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined __aarch64__
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#endif

static bool write_pointer(const struct dl_phdr_info *program, void **at, void *value)
{
    long size = sysconf(_SC_PAGESIZE);
    ElfW(Addr) page = (ElfW(Addr))at & -size;
    bool protected = is_read_only(program, page);
    if (protected && mprotect((void *)page, size, PROT_READ | PROT_WRITE) != 0)
        return false;
    *at = value;
    if (protected)
        mprotect((void *)page, size, PROT_READ);
    return true;
}

/* What a program says, by which it finds functions of its libraries: where it calls them, or, where it was
   built to call without a stub (-fno-plt), among all else that is relocated. */
struct relocations {
    const ElfW(Rela) *first;
    size_t size;
};

/* Which of the calls a relocation is of, as bits. */
static int take_over_one(const struct dl_phdr_info *program, void **at, const char *name)
{
    static const struct {
        const char *name;
        void *ours;
        int number;
    } CALL[] = {{"fork", fork_or_spawn, 0},   {"execve", execve_counted, 1},
                {"pipe", pipe_noted, 2},      {"waitpid", waitpid_or_known, 3},
                {"open", open_or_again, 4},   {"open64", open_or_again, 4}};
    for (size_t i = 0; i < sizeof CALL / sizeof *CALL; i++)
        if (strcmp(name, CALL[i].name) == 0 && write_pointer(program, at, CALL[i].ours))
            return 1 << CALL[i].number;
    return 0;
}

static bool take_over(const struct dl_phdr_info *program, const ElfW(Dyn) *dynamic)
{
    enum { ALL = (1 << 5) - 1 };
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    struct relocations tables[2] = {{NULL, 0}, {NULL, 0}};
    int taken = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        switch (dynamic->d_tag) {
        case DT_SYMTAB: symbols = (const void *)dynamic->d_un.d_ptr; break;
        case DT_STRTAB: names = (const void *)dynamic->d_un.d_ptr; break;
        case DT_JMPREL: tables[0].first = (const void *)dynamic->d_un.d_ptr; break;
        case DT_PLTRELSZ: tables[0].size = dynamic->d_un.d_val; break;
        case DT_RELA: tables[1].first = (const void *)dynamic->d_un.d_ptr; break;
        case DT_RELASZ: tables[1].size = dynamic->d_un.d_val; break;
        }
    if (!symbols || !names)
        return false;
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; tables[table].first && i < tables[table].size / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *one = &tables[table].first[i];
            if (ELF64_R_TYPE(one->r_info) == JUMP_SLOT || ELF64_R_TYPE(one->r_info) == GLOB_DAT)
                taken |= take_over_one(program, (void **)(program->dlpi_addr + one->r_offset),
                                       names + symbols[ELF64_R_SYM(one->r_info)].st_name);
        }
    return taken == ALL;
}

/* The program itself is the first that is reported. */
static int in_program(struct dl_phdr_info *program, size_t size, void *taken)
{
    (void)size;
    for (int i = 0; i < program->dlpi_phnum; i++)
        if (program->dlpi_phdr[i].p_type == PT_DYNAMIC)
            *(bool *)taken = take_over(
                program, (const void *)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr));
    return 1;
}

bool take_over_calls(void)
{
    bool taken = false;
    dl_iterate_phdr(in_program, &taken);
    return taken;
}
