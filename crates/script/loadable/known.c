#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "count.h"
#include "known.h"
#include "plain.h"

static const struct {
    const char *name;
    act *act;
} TOOL[] = {
#define AS_ROW(name, act) {#name, act},
    TOOLS(AS_ROW)
};

/* A file that was looked at, and found to be the program whose behaviour is known. */
struct proven {
    unsigned long device, inode, size;
    struct timespec modified, changed;
};

static struct proven proven[TOOLS_KNOWN];

enum { MOST_HOSTS = 32 };
static struct {
    struct proven file;
    enum host host;
} hosts[MOST_HOSTS];
static int known_hosts;

static const char *const HOST[HOSTS] = {"bash", "dash", "launcher"};
static const char *const LIBRARY[HOSTS] = {"becalm-builtins.so", "becalm-dash.so",
                                           "becalm-launcher.so"};
static struct {
    struct proven file;
    char path[4096];
} libraries[HOSTS];

/* Whether a file may be executed here, by its mode and its mount, which is asked once a process: who
 * it is of stays, and with its mode the file's time of change is another. */
static bool may_execute(enum tool tool, const char *path)
{
    static char *asked[TOOLS_KNOWN];
    if (asked[tool] && strcmp(asked[tool], path) == 0)
        return true;
    if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) != 0)
        return false;
    free(asked[tool]);
    asked[tool] = strdup(path);
    return true;
}

enum tool tool_named(const char *name)
{
    int tool = 0;
    while (tool < TOOLS_KNOWN && strcmp(TOOL[tool].name, name) != 0)
        tool++;
    return tool;
}

enum tool tool_by_path(const char *path)
{
    struct stat file;
    const char *slash = strrchr(path, '/');
    enum tool tool = tool_named(slash ? slash + 1 : path);
    bool is_one = tool < TOOLS_KNOWN && stat(path, &file) == 0 && S_ISREG(file.st_mode) &&
                  may_execute(tool, path);
    return is_one ? tool : TOOLS_KNOWN;
}

const char *tool_name(enum tool tool)
{
    return TOOL[tool].name;
}

static bool is_time(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec == other->tv_sec && one->tv_nsec == other->tv_nsec;
}

/* The time of change is one that nobody can set. */
static bool is_it(const struct proven *known, const struct stat *file)
{
    return known->inode && !(file->st_mode & (S_ISUID | S_ISGID)) &&
           file->st_ino == known->inode && file->st_dev == known->device &&
           (unsigned long)file->st_size == known->size &&
           is_time(&file->st_mtim, &known->modified) && is_time(&file->st_ctim, &known->changed);
}

static int host_named(const char *name)
{
    int host = 0;
    while (host < HOSTS && strcmp(HOST[host], name) != 0)
        host++;
    return host;
}

static void remember(const char *name, const struct proven *one)
{
    enum tool tool = tool_named(name);
    int host = host_named(name + 1);
    if (tool < TOOLS_KNOWN)
        proven[tool] = *one;
    if (host < HOSTS && *name == '+')
        libraries[host].file = *one;
    if (host < HOSTS && *name == '@' && known_hosts < MOST_HOSTS) {
        hosts[known_hosts].file = *one;
        hosts[known_hosts++].host = host;
    }
}

/* Reads what becalm has written, and nothing else of its name. */
static bool read_text(const char *path, char *text, size_t size)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return false;
    bool is_file = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    ssize_t got = is_file ? read(file, text, size - 1) : -1;
    close(file);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* Whether the last line is the sum of all before (src/builtins/directory.rs); that is taken away. */
static bool is_whole(char *text)
{
    char wanted[32], *last = strrchr(text, '#');
    uint64_t sum = 0xcbf29ce484222325;
    if (!last)
        return false;
    for (const char *at = text; at < last; at++)
        sum = (sum ^ (unsigned char)*at) * 0x100000001b3;
    sprintf(wanted, "# %016" PRIx64 "\n", sum);
    bool is = strcmp(last, wanted) == 0;
    *last = '\0';
    return is;
}

/* A line is a name, of a tool, "@" and a host, or "+" and a host's library, and what its file is. */
static void read_lines(const char *text)
{
    char name[32];
    struct proven one;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (sscanf(text, "%31s %lu %lu %lu %ld %ld %ld %ld", name, &one.device, &one.inode,
                   &one.size, &one.modified.tv_sec, &one.modified.tv_nsec, &one.changed.tv_sec,
                   &one.changed.tv_nsec) == 8)
            remember(name, &one);
}

void read_known(void *of_library)
{
    Dl_info here;
    char path[4096], text[16384];
    if (!dladdr(of_library, &here) || !here.dli_fname[0])
        return;
    const char *slash = strrchr(here.dli_fname, '/');
    int directory = slash ? slash + 1 - here.dli_fname : 0;
    if (!slash || directory + 32 > (int)sizeof path)
        return;
    for (int host = 0; host < HOSTS; host++)
        sprintf(libraries[host].path, "%.*s%s", directory, here.dli_fname, LIBRARY[host]);
    sprintf(path, "%.*sprograms", directory, here.dli_fname);
    if (read_text(path, text, sizeof text) && is_whole(text))
        read_lines(text);
}

/* What may not be executed, the shell has to say so of. */
static bool is_proven(enum tool tool, const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && is_it(&proven[tool], &file) && may_execute(tool, path);
}

static enum counted outcome(enum tool tool, const char *path, struct request *request,
                            char *const *envp)
{
    request->envp = envp;
    return !TOOL[tool].act                              ? ONLY_STARTED
           : !is_proven(tool, path)                     ? UNKNOWN
           : !variables_are_plain(request->argv, envp) ? VARIABLES
           : !TOOL[tool].act(request)                   ? REQUEST
                                                        : AVOIDED;
}

bool do_inside(enum tool tool, const char *path, struct request *request, char *const *envp)
{
    enum counted why = outcome(tool, path, request, envp);
    count(tool, why, 1);
    return why == AVOIDED;
}

bool would_do_inside(enum tool tool, const char *path, struct request *request, char *const *envp)
{
    return outcome(tool, path, request, envp) == AVOIDED;
}

enum host host_of(const struct stat *file)
{
    for (int i = 0; i < known_hosts; i++)
        if (is_it(&hosts[i].file, file))
            return hosts[i].host;
    return HOSTS;
}

const char *library_for(enum host host)
{
    struct stat file;
    const char *path = libraries[host].path;
    return stat(path, &file) == 0 && is_it(&libraries[host].file, &file) &&
                   faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0
               ? path
               : NULL;
}
