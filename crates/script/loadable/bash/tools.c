#include <stdlib.h>
#include <string.h>

#include "../count.h"
#include "../known.h"
#include "../plain.h"
#include "../reach.h"
#include "detour.h"
#include "hide.h"
#include "shell.h"
#include "start.h"
#include "subshell.h"
#include "substitute.h"
#include "tools.h"

static bool ready, is_reached;

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

static int run(enum tool tool, WORD_LIST *words)
{
    bool by_path = this_command_name && strchr(this_command_name, '/');
    const char *name = by_path ? this_command_name : tool_name(tool);
    char *path = look_up(name);
    if (!path)
        return EX_DISKFALLBACK;
    struct request request;
    request_of(&request, name, words);
    /* A script that bash reads from there is bash's, as far as it has read. */
    request.no_input = default_buffered_input == 0;
    maybe_make_export_env();
    int before = request.argc, status;
    if (do_inside(tool, path, &request, export_env))
        status = request.status;
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
        count(tool_of_word(name), SHELL);
    asked = asked == name ? NULL : name;
}

static void add_tools(void);

/* bash itself has no builtins with a slash in their names: such a one is asked for to be executed. */
static struct builtin *builtin_named(char *name)
{
    if (!strchr(name, '/'))
        return builtin_address_internal(name, 0);
    enum tool tool = restricted || tools_are_hidden() ? TOOLS_KNOWN : tool_by_path(name);
    struct builtin *found =
        tool < TOOLS_KNOWN ? builtin_address_internal((char *)tool_name(tool), 0) : NULL;
    return found && is_tool(found->function) ? found : NULL;
}

/* bash asks which builtin a command is before it does anything for it, redirections and variables
   of its own included: where a builtin would show, there is none. */
static sh_builtin_func_t *our_find_shell_builtin(char *name)
{
    add_tools();
    struct builtin *found = builtin_named(name);
    if (found && is_tool(found->function) && !shell_is_plain()) {
        /* Before it expands assignments, it asks once more. */
        if (!subst_assign_varlist)
            count_started_by_bash(name);
        found = NULL;
    }
    current_builtin = found;
    return found ? found->function : NULL;
}

/* An interactive shell, and a bash of another version, keep what they are. */
__attribute__((constructor)) static void load(void)
{
    static struct detour finding;
    is_reached = was_reached();
    if (strcmp(dist_version, "5.2") != 0 || stack_is_small())
        return;
    read_known((void *)load);
    remember_limits();
    ready = take_over_calls() && hide_tools() &&
            lead(&finding, find_shell_builtin, our_find_shell_builtin) && take_over_substitution() &&
            take_over_subshells();
    if (!ready)
        return;
    count_in_file();
    count_shell();
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

enum tool tool_of_word(const char *word)
{
    return strchr(word, '/') ? tool_by_path(word) : tool_named(word);
}

/* What "enable -f" does for a shell that reads BASH_ENV, where bash was started with the library:
   in POSIX mode, and as sh, too. As ever, neither an interactive shell nor one with -p has them. */
static void add_tools(void)
{
    if (!is_reached)
        return;
    is_reached = false;
    if (interactive_shell || privileged_mode)
        return;
#define AS_ENTRY(name, act) name##_struct,
    const struct builtin tools[] = {TOOLS(AS_ENTRY)};
    add_builtins(tools, sizeof tools / sizeof *tools);
}
