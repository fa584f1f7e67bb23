#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
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
    long seconds, nanoseconds;
};

static struct proven proven[TOOLS_KNOWN];

enum { MOST_HOSTS = 32 };
static struct {
    struct proven file;
    enum host host;
} hosts[MOST_HOSTS];
static int known_hosts;

static const char *const HOST[HOSTS] = {"@bash", "@dash", "@launcher"};
static const char *const LIBRARY[HOSTS] = {"becalm-builtins.so", "becalm-dash.so",
                                           "becalm-launcher.so"};
static char libraries[HOSTS][4096];

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
                  faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
    return is_one ? tool : TOOLS_KNOWN;
}

const char *tool_name(enum tool tool)
{
    return TOOL[tool].name;
}

static bool is_it(const struct proven *known, const struct stat *file)
{
    return known->inode && !(file->st_mode & (S_ISUID | S_ISGID)) &&
           file->st_ino == known->inode && file->st_dev == known->device &&
           (unsigned long)file->st_size == known->size &&
           file->st_mtim.tv_sec == known->seconds && file->st_mtim.tv_nsec == known->nanoseconds;
}

static void remember(const char *name, const struct proven *one)
{
    for (int host = 0; host < HOSTS; host++)
        if (strcmp(HOST[host], name) == 0 && known_hosts < MOST_HOSTS) {
            hosts[known_hosts].file = *one;
            hosts[known_hosts++].host = host;
            return;
        }
    enum tool tool = tool_named(name);
    if (tool < TOOLS_KNOWN)
        proven[tool] = *one;
}

void read_known(void *of_library)
{
    Dl_info here;
    char path[4096], name[32];
    struct proven one;
    if (!dladdr(of_library, &here) || !here.dli_fname[0])
        return;
    const char *slash = strrchr(here.dli_fname, '/');
    int directory = slash ? slash + 1 - here.dli_fname : 0;
    if (!slash || directory + 32 > (int)sizeof path)
        return;
    for (int host = 0; host < HOSTS; host++)
        sprintf(libraries[host], "%.*s%s", directory, here.dli_fname, LIBRARY[host]);
    sprintf(path, "%.*sprograms", directory, here.dli_fname);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (fscanf(file, "%31s %lu %lu %lu %ld %ld", name, &one.device, &one.inode, &one.size,
                  &one.seconds, &one.nanoseconds) == 6)
        remember(name, &one);
    fclose(file);
}

static bool is_proven(enum tool tool, const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && is_it(&proven[tool], &file);
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
    count(tool, why);
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
    return libraries[host];
}
