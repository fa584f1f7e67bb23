#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../count.h"
#include "../known.h"
#include "../reach.h"
#include "bash.h"
#include "start.h"
#include "subshell.h"
#include "substitute.h"

/* What the next fork() is for, if it is for a program of ours. */
static struct {
    char *path;
    char **argv;
} wanted;

/* What the C library's own functions refuse to tell of its own two signals. */
static bool is_ignored(int signal)
{
    struct { void (*handler)(int); unsigned long flags; void (*restore)(void); unsigned long mask; } is;
    return syscall(SYS_rt_sigaction, signal, NULL, &is, sizeof is.mask) == 0 &&
           is.handler == SIG_IGN;
}

/* bash ignores SIGQUIT for itself; its commands have what bash itself was started with.
   glibc's posix_spawn has its own two signals ignored, unless they are asked for here, which
   sigaddset refuses. */
static void signals_for(sigset_t *defaults)
{
    sigemptyset(defaults);
    for (int signal = 32; signal <= 33; signal++)
        if (!is_ignored(signal))
            *(unsigned long *)defaults |= 1UL << (signal - 1);
    if (!signal_is_ignored(SIGQUIT) && !signal_is_hard_ignored(SIGQUIT))
        sigaddset(defaults, SIGQUIT);
}

pid_t spawn(char *path, char **argv, const posix_spawn_file_actions_t *actions)
{
    posix_spawnattr_t how;
    sigset_t defaults;
    pid_t child;
    if (posix_spawnattr_init(&how) != 0)
        return 0;
    signals_for(&defaults);
    posix_spawnattr_setsigdefault(&how, &defaults);
    posix_spawnattr_setsigmask(&how, &top_level_mask);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    maybe_make_export_env();
    put_command_name_into_env(path);
    char variable[REACH_VARIABLE], *list[reach_size(export_env)];
    char *const *with = reach(path, export_env, list, variable);
    int why = posix_spawn(&child, path, actions, &how, argv, with);
    if (with != export_env && why == E2BIG)
        why = posix_spawn(&child, path, actions, &how, argv, export_env);
    posix_spawnattr_destroy(&how);
    return why == 0 ? child : 0;
}

/* Called by make_child, which keeps the books of bash's children: for it, this is fork(). */
static pid_t fork_or_spawn(void)
{
    char *path = wanted.path;
    pid_t child;
    wanted.path = NULL;
    if (start_of_subshell(&child))
        return child;
    subshell_has_begun();
    child = path ? spawn(path, wanted.argv, NULL) : child_that_is_known();
    /* A script without "#!", or what cannot be executed: bash knows what to do, or to say. */
    return child ? child : fork();
}

/* What bash executes itself, in a child of its own. Tools were counted when bash asked for them. */
static int execve_counted(const char *path, char *const *argv, char *const *envp)
{
    const char *slash = strrchr(path, '/');
    bool is_other = tool_named(slash ? slash + 1 : path) == TOOLS_KNOWN;
    count_other(is_other);
    int failed = execve_reaching(path, argv, envp), why = errno;
    count_other(-is_other);
    errno = why;
    return failed;
}

int start(char *path, char **argv)
{
    const char *printed = the_printed_command_except_trap;
    printed = printed ? printed : argv[0];
    char *text = strcpy(xmalloc(strlen(printed) + 1), printed);
    if (!job_control) {
        wanted.path = path;
        wanted.argv = argv;
    }
    pid_t child = make_child(text, FORK_SYNC);
    wanted.path = NULL;
    if (child == 0) {
        /* As in bash's execute_disk_command. */
        reset_terminating_signals();
        restore_original_signals();
        maybe_make_export_env();
        put_command_name_into_env(path);
        subshell_environment = (subshell_environment & ~SUBSHELL_IGNTRAP) | SUBSHELL_FORK;
        exit(shell_execve(path, argv, export_env));
    }
    stop_pipeline(0, NULL);
    return wait_for(child, 0);
}

static bool write_pointer(void **at, void *value)
{
    long page = sysconf(_SC_PAGESIZE);
    void *from = (void *)((ElfW(Addr))at & -page);
    /* After relocation the loader has made it read-only (RELRO). */
    if (mprotect(from, page, PROT_READ | PROT_WRITE) != 0)
        return false;
    *at = value;
    mprotect(from, page, PROT_READ);
    return true;
}

static bool take_over(struct dl_phdr_info *program, const ElfW(Dyn) *dynamic)
{
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const ElfW(Rela) *calls = NULL;
    size_t size = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        switch (dynamic->d_tag) {
        case DT_SYMTAB: symbols = (const void *)dynamic->d_un.d_ptr; break;
        case DT_STRTAB: names = (const void *)dynamic->d_un.d_ptr; break;
        case DT_JMPREL: calls = (const void *)dynamic->d_un.d_ptr; break;
        case DT_PLTRELSZ: size = dynamic->d_un.d_val; break;
        }
    if (!symbols || !names || !calls)
        return false;
    static const struct {
        const char *name;
        void *ours;
        int number;
    } CALL[] = {{"fork", fork_or_spawn, 0},   {"execve", execve_counted, 1},
                {"pipe", pipe_noted, 2},      {"waitpid", waitpid_or_known, 3},
                {"open", open_or_again, 4},   {"open64", open_or_again, 4}};
    enum { CALLS = sizeof CALL / sizeof *CALL, ALL = 1 << 5 };
    int taken = 0;
    for (const ElfW(Rela) *call = calls; call < calls + size / sizeof *calls; call++)
        for (int i = 0; i < CALLS; i++)
            if (strcmp(names + symbols[ELF64_R_SYM(call->r_info)].st_name, CALL[i].name) == 0 &&
                write_pointer((void **)(program->dlpi_addr + call->r_offset), CALL[i].ours))
                taken |= 1 << CALL[i].number;
    return taken == ALL - 1;
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
