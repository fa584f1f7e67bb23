/* dash: what it executes is done in its own process, where that is all the program would do. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../count.h"
#include "../known.h"
#include "../plain.h"
#include "../reach.h"
#include "fork.h"

#define FOR_DASH __attribute__((visibility("default")))

static bool ready;

__attribute__((constructor)) static void load(void)
{
    if (!was_reached() || stack_is_small())
        return;
    read_known((void *)load);
    remember_limits();
    count_in_file();
    count_shell();
    ready = true;
}

static enum tool tool_at(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/'), *as = strrchr(name, '/');
    path = slash ? slash + 1 : path;
    /* A program of many names does what its first argument says. */
    return strcmp(path, as ? as + 1 : name) == 0 ? tool_named(path) : TOOLS_KNOWN;
}

static int execute(const char *path, char *const *argv, char *const *envp, bool is_other)
{
    be_a_child();
    count_other(is_other);
    int failed = execve_reaching(path, argv, envp), why = errno;
    count_other(-is_other);
    errno = why;
    return failed;
}

/* dash looks for a command in PATH by trying to execute it: what is not there is none. */
static int execute_tool(enum tool tool, const char *path, char *const *argv, char *const *envp)
{
    struct request request = {.argv = NULL};
    while (argv[request.argc])
        request.argc++;
    /* What is longer is the program's, as is what has other variables (variables_are_plain). */
    char *words[request.argc < 16384 ? request.argc + 1 : 1];
    bool fits = request.argc < 16384 && !a_limit_is_lower();
    if (!fits) {
        count(tool, SHELL, 1);
        return execute(path, argv, envp, false);
    }
    memcpy(words, argv, sizeof words);
    request.argv = words;
    if (!do_inside(tool, path, &request, envp))
        return execute(path, words, envp, false);
    if (is_child_to_be())
        end_child_to_be(request.status);
    _exit(request.status);
}

FOR_DASH int execve(const char *path, char *const argv[], char *const envp[])
{
    enum tool tool = tool_at(path, argv[0]);
    bool is_tool = tool < TOOLS_KNOWN;
    if (!ready || !is_tool || is_borrowing() || access(path, X_OK) != 0)
        return execute(path, argv, envp, ready && !is_tool);
    return execute_tool(tool, path, argv, envp);
}
