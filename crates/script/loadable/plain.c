#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bash.h"
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
static bool a_limit_is_lower(void)
{
    for (int what = 0; what < RLIM_NLIMITS; what++)
        if (what != RLIMIT_CORE && limit_of(what) < began_with[what])
            return true;
    return false;
}

/* Whether a variable has another value, or another effect, in a child: with set -u one that is not
   set ends whoever asks for it, which is the child. */
static bool variable_shows(const char *name)
{
    static const char *const OWN[] = {"BASHPID",       "BASH_SUBSHELL", "EPOCHREALTIME",
                                      "EPOCHSECONDS",  "SECONDS",       "RANDOM",
                                      "SRANDOM"};
    /* Asking for the last two takes a number of the shell's. */
    enum { ALL = sizeof OWN / sizeof *OWN, HARMLESS = ALL - 2 };
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    char own[256];
    if (unbound_vars_is_error || length >= sizeof own)
        return true;
    if (length == 0 || (name[0] >= '0' && name[0] <= '9'))
        return false;
    memcpy(own, name, length);
    own[length] = '\0';
    for (int i = 0; i < ALL; i++)
        if (!strcmp(own, OWN[i]))
            return true;
    void *variable = find_variable(own);
    /* A reference (declare -n) is what it refers to. */
    for (int i = 0; i < HARMLESS; i++)
        if (variable && variable == find_variable(OWN[i]))
            return true;
    return variable == NULL;
}

/* bash redirects for a builtin in its own process, for a program in the child. Only there does
   /proc/self mean the child; and only from there do descriptors ("{v}>"), processes (">(…)", "$!") and
   assignments ("> log$((i += 1))") not stay, and errors not end the shell. */
static bool redirection_shows(const char *text)
{
    if (!text || strchr(text, '<'))
        return text != NULL;
    const char *out = strchr(text, '>');
    if (!out)
        return false;
    static const char *const SHOWS[] = {"${", "$[", "((", "$(", "`", ">(", "/proc/"};
    for (size_t i = 0; i < sizeof SHOWS / sizeof *SHOWS; i++)
        if (strstr(out, SHOWS[i]))
            return true;
    if (strpbrk(out, "*?["))
        return true;
    for (const char *at = out; (at = strchr(at, '>')); at++)
        if (at > text && at[-1] == '}')
            return true;
    for (const char *at = out; (at = strchr(at, '$')); at++)
        if (variable_shows(at + 1))
            return true;
    return false;
}

bool shell_is_plain(void)
{
    /* Variables for one command: bash has those of a builtin for itself meanwhile, and says so
       (LC_ALL), turns POSIX mode on and off (POSIXLY_CORRECT), and so on. */
    if (subst_assign_varlist || temporary_env)
        return false;
    /* A child's end is reported by SIGCHLD. */
    if (signal_is_trapped(SIGCHLD) || a_limit_is_lower())
        return false;
    return !redirection_shows(the_printed_command) &&
           !redirection_shows(the_printed_command_except_trap);
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
   first operand for a time. */
static bool changes_programs(const char *variable)
{
    static const char *const HARMLESS[] = {"LD_LIBRARY_PATH=", "LD_RUN_PATH=", "LD_BIND_NOW="};
    for (size_t i = 0; i < sizeof HARMLESS / sizeof *HARMLESS; i++)
        if (strncmp(variable, HARMLESS[i], strlen(HARMLESS[i])) == 0)
            return false;
    return strncmp(variable, "LD_", 3) == 0 ||
           strncmp(variable, "_POSIX2_VERSION=", sizeof "_POSIX2_VERSION=" - 1) == 0;
}

bool variables_are_plain(char *const *argv)
{
    maybe_make_export_env();
    for (char *const *variable = export_env; *variable; variable++)
        if (changes_programs(*variable))
            return false;
    return room_for(argv) + room_for(export_env) < ROOM;
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

bool is_for_all(const char *path, bool follow)
{
    struct statfs on;
    int file = open_for_all(path, O_PATH | (follow ? 0 : O_NOFOLLOW), 0);
    bool is = file >= 0 && fstatfs(file, &on) == 0 && on.f_type != PROC_SUPER_MAGIC;
    if (file >= 0)
        close(file);
    return is;
}
