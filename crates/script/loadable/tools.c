#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "count.h"
#include "detour.h"
#include "hide.h"
#include "plain.h"
#include "request.h"
#include "start.h"
#include "tools.h"

/* Name, and what it does in the shell's own process: some do all by starting the program. The
   table in src/builtins/programs.rs has the same. */
#define TOOLS(tool)                                                                             \
    tool(basename, act_basename) tool(cat, act_cat) tool(chmod, act_chmod)                      \
    tool(dirname, act_dirname) tool(ln, act_ln) tool(mkdir, act_mkdir) tool(mv, act_mv)         \
    tool(readlink, act_readlink) tool(realpath, act_realpath) tool(rm, act_rm)                  \
    tool(rmdir, act_rmdir) tool(touch, act_touch)                                               \
    tool(awk, NULL) tool(chgrp, NULL) tool(chown, NULL) tool(cmp, NULL) tool(cp, NULL)          \
    tool(cut, NULL) tool(date, NULL) tool(find, NULL) tool(grep, NULL) tool(gunzip, NULL)       \
    tool(gzip, NULL) tool(head, NULL) tool(install, NULL) tool(sed, NULL) tool(sleep, NULL)     \
    tool(sort, NULL) tool(tail, NULL) tool(tar, NULL) tool(tr, NULL) tool(wc, NULL)

enum tool {
#define AS_MEMBER(name, act) TOOL_##name,
    TOOLS(AS_MEMBER) COUNT
};

static const struct {
    const char *name;
    act *act;
} TOOL[] = {
#define AS_ROW(name, act) {#name, act},
    TOOLS(AS_ROW)
};

/* The file that was looked at before this library was handed out, and found to be the program
   whose behaviour is known. */
static struct proven {
    unsigned long device, inode, size;
    long seconds, nanoseconds;
} proven[COUNT];

static bool ready;

static bool is_proven(enum tool tool, const char *path)
{
    struct stat file;
    const struct proven *known = &proven[tool];
    return known->inode && stat(path, &file) == 0 && !(file.st_mode & (S_ISUID | S_ISGID)) &&
           file.st_ino == known->inode && file.st_dev == known->device &&
           (unsigned long)file.st_size == known->size &&
           file.st_mtim.tv_sec == known->seconds && file.st_mtim.tv_nsec == known->nanoseconds;
}

/* The program that bash would run, to be freed; NULL if it would run none. */
static char *look_up(const char *name)
{
    /* "command -p" is told apart from "command" by its text alone. */
    const char *text = the_printed_command_except_trap;
    bool standard = executing_command_builtin && text && strstr(text, "command -p");
    return search_for_command(name, CMDSRCH_HASH | (standard ? CMDSRCH_STDPATH : 0));
}

/* bash offers to run the program instead of a builtin, but would do redirections once more. */
static bool may_redirect(void)
{
    const char *texts[] = {the_printed_command, the_printed_command_except_trap};
    for (int i = 0; i < 2; i++)
        if (!texts[i] || strpbrk(texts[i], "<>"))
            return true;
    return running_trap != 0;
}

/* In a subshell, bash execs the last program without a fork. */
static bool bash_should_start_it(void)
{
    return (subshell_environment || job_control) && !may_redirect();
}

static void request_of(struct request *request, const char *name, WORD_LIST *words)
{
    int count = 1;
    for (WORD_LIST *word = words; word; word = word->next)
        count++;
    *request = (struct request){.argv = xmalloc((count + 1) * sizeof(char *))};
    request->argv[request->argc++] = (char *)name;
    for (; words; words = words->next)
        request->argv[request->argc++] = words->word->word;
    request->argv[request->argc] = NULL;
}

/* Does what can be done in the shell's own process. True: that is all. */
static bool act_on(enum tool tool, const char *path, struct request *request)
{
    enum counted why = !TOOL[tool].act                      ? ONLY_STARTED
                       : !is_proven(tool, path)             ? UNKNOWN
                       : !variables_are_plain(request->argv) ? VARIABLES
                       : !TOOL[tool].act(request)           ? REQUEST
                                                            : AVOIDED;
    count(why);
    return why == AVOIDED;
}

static int run(enum tool tool, WORD_LIST *words)
{
    char *path = look_up(TOOL[tool].name);
    if (!path)
        return EX_DISKFALLBACK;
    struct request request;
    request_of(&request, TOOL[tool].name, words);
    int before = request.argc, status;
    if (act_on(tool, path, &request))
        status = 0;
    else if (request.argc == before && bash_should_start_it())
        status = EX_DISKFALLBACK;
    else
        status = start(path, request.argv);
    xfree(request.argv);
    xfree(path);
    return status;
}

/* bash looks a command up twice, as what "command" may stand before, and as what it executes;
   unless a function comes first. */
static void count_started_by_bash(const char *name)
{
    static const char *asked;
    if (find_function(name))
        return;
    if (asked == name)
        count(SHELL);
    asked = asked == name ? NULL : name;
}

/* bash asks which builtin a command is before it does anything for it, redirections and variables
   of its own included: where a builtin would show, there is none. */
static sh_builtin_func_t *our_find_shell_builtin(char *name)
{
    struct builtin *found = builtin_address_internal(name, 0);
    if (found && is_tool(found->function) && !shell_is_plain()) {
        /* Before it expands assignments, it asks once more. */
        if (!subst_assign_varlist)
            count_started_by_bash(name);
        found = NULL;
    }
    current_builtin = found;
    return found ? found->function : NULL;
}

static void read_proven(const char *from)
{
    char path[4096], name[32], *slash;
    struct proven one;
    if (snprintf(path, sizeof path, "%s", from) >= (int)sizeof path)
        return;
    if (!(slash = strrchr(path, '/')) || slash + sizeof "/programs" > path + sizeof path)
        return;
    strcpy(slash, "/programs");
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (fscanf(file, "%31s %lu %lu %lu %ld %ld", name, &one.device, &one.inode, &one.size,
                  &one.seconds, &one.nanoseconds) == 6)
        for (int tool = 0; tool < COUNT; tool++)
            if (strcmp(TOOL[tool].name, name) == 0)
                proven[tool] = one;
    fclose(file);
}

/* An interactive shell, and a bash of another version, keep what they are. */
__attribute__((constructor)) static void load(void)
{
    Dl_info here;
    if (strcmp(dist_version, "5.2") != 0 || !dladdr((void *)load, &here))
        return;
    static struct detour finding;
    read_proven(here.dli_fname);
    remember_limits();
    ready = take_over_fork() && hide_tools() &&
            lead(&finding, find_shell_builtin, our_find_shell_builtin);
    if (ready) {
        count_in_file();
        count(SHELLS);
    }
}

static char *const NO_HELP[] = {"The program of this name.", NULL};

#define FOR_BASH __attribute__((visibility("default")))
#define AS_BUILTIN(name_, act)                                                                  \
    static int run_##name_(WORD_LIST *words) { return run(TOOL_##name_, words); }               \
    FOR_BASH int name_##_builtin_load(char *name) { return name && ready; }                     \
    FOR_BASH struct builtin name_##_struct = {#name_, run_##name_, BUILTIN_ENABLED, NO_HELP, #name_, NULL};
TOOLS(AS_BUILTIN)

bool is_tool(sh_builtin_func_t *function)
{
#define IS_IT(name, act) || function == run_##name
    return false TOOLS(IS_IT);
}

bool is_tool_name(const char *name)
{
    for (int tool = 0; tool < COUNT; tool++)
        if (strcmp(TOOL[tool].name, name) == 0)
            return true;
    return false;
}
