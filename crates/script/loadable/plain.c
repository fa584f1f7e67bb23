#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "plain.h"

static rlim_t began_with[RLIM_NLIMITS];

static rlim_t limit_of(int what)
{
    struct rlimit limit;
    return getrlimit(what, &limit) == 0 ? limit.rlim_cur : 0;
}

void remember_limits(void)
{
    for (int what = 0; what < RLIM_NLIMITS; what++)
        began_with[what] = limit_of(what);
}

/* A limit that the script has lowered is for the programs that it starts: one may not even load
   its libraries. The size of core dumps is none that a program meets. */
bool a_limit_is_lower(void)
{
    for (int what = 0; what < RLIM_NLIMITS; what++)
        if (what != RLIMIT_CORE && limit_of(what) < began_with[what])
            return true;
    return false;
}

/* What is done here takes up to some tens of KiB of it. */
#define ENOUGH_STACK (256 << 10)

bool stack_is_small(void)
{
    return limit_of(RLIMIT_STACK) < ENOUGH_STACK;
}

/* Linux takes that much, however low the limit of the stack, less what it puts there itself. */
#define ROOM (120 << 10)

static size_t room_for(char *const *words)
{
    size_t room = 0;
    for (; *words; words++)
        room += strlen(*words) + 1 + sizeof *words;
    return room;
}

/* Variables that have the loader or a program do something else. POSIXLY_CORRECT, which bash has in
   POSIX mode, is none: with it, getopt takes for operands what looks like options behind them, and
   such words are left to the program anyway (request.c). With _POSIX2_VERSION, touch may take its
   first operand for a time. LOCPATH may have another locale of a name that is known. LD_GOLD, which conda's
   compilers export, is the linker's path. */
bool changes_programs(const char *variable)
{
    static const char *const HARMLESS[] = {"LD_LIBRARY_PATH=", "LD_RUN_PATH=",
                                           "LD_BIND_NOW=", "LD_GOLD="};
    for (size_t i = 0; i < sizeof HARMLESS / sizeof *HARMLESS; i++)
        if (strncmp(variable, HARMLESS[i], strlen(HARMLESS[i])) == 0)
            return false;
    return strncmp(variable, "LD_", 3) == 0 ||
           strncmp(variable, "LOCPATH=", sizeof "LOCPATH=" - 1) == 0 ||
           strncmp(variable, "_POSIX2_VERSION=", sizeof "_POSIX2_VERSION=" - 1) == 0;
}

bool variables_are_plain(char *const *argv, char *const *envp)
{
    for (char *const *variable = envp; *variable; variable++)
        if (changes_programs(*variable))
            return false;
    return room_for(argv) + room_for(envp) < ROOM;
}

/* Of linux/openat2.h, which older headers lack. A kernel before 5.6 lacks the call: nothing is
   opened then. */
struct how {
    uint64_t flags, mode, resolve;
};
enum { OPENAT2 = 437, NO_MAGICLINKS = 2 };

int open_for_all(const char *path, int flags, mode_t mode)
{
    struct how how = {flags | O_CLOEXEC, mode, NO_MAGICLINKS};
    return syscall(OPENAT2, AT_FDCWD, path, &how, sizeof how);
}

bool is_of_processes(int file)
{
    struct statfs on;
    return fstatfs(file, &on) != 0 || on.f_type == PROC_SUPER_MAGIC ||
           on.f_type == CGROUP_SUPER_MAGIC || on.f_type == CGROUP2_SUPER_MAGIC;
}

bool is_for_all(const char *path, bool follow)
{
    int file = open_for_all(path, O_PATH | (follow ? 0 : O_NOFOLLOW), 0);
    bool is = file >= 0 && !is_of_processes(file);
    if (file >= 0)
        close(file);
    return is;
}
