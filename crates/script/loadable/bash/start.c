#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
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

static bool is_counted;

void note_counted(void)
{
    is_counted = true;
}

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

pid_t fork_or_spawn(void)
{
    char *path = wanted.path;
    pid_t child;
    wanted.path = NULL;
    if (start_of_subshell(&child))
        return child;
    subshell_has_begun();
    child = path ? spawn(path, wanted.argv, NULL) : child_that_is_known();
    /* A script without "#!", or what cannot be executed: bash knows what to do, or to say. */
    child = child ? child : fork();
    is_counted = is_counted && child == 0;
    return child;
}

static void count_executed(const char *path, int by)
{
    const char *slash = strrchr(path, '/');
    enum tool tool = tool_named(slash ? slash + 1 : path);
    if (tool < TOOLS_KNOWN)
        count(tool, SHELL, by);
    else
        count_other(by);
}

int execve_counted(const char *path, char *const *argv, char *const *envp)
{
    bool is_new = !is_counted;
    is_counted = false;
    count_executed(path, is_new);
    int failed = execve_reaching(path, argv, envp), why = errno;
    count_executed(path, -is_new);
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
        note_counted();
        exit(shell_execve(path, argv, export_env));
    }
    stop_pipeline(0, NULL);
    return wait_for(child, 0);
}
