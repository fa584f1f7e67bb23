#include <stdlib.h>
#include <string.h>

#include "../count.h"
#include "../known.h"
#include "../plain.h"
#include "../reach.h"
#include "calls.h"
#include "detour.h"
#include "hide.h"
#include "led.h"
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
    else if (request.argc == before && bash_should_start_it()) {
        note_counted();
        status = EX_DISKFALLBACK;
    } else
        status = start(path, request.argv);
    xfree(request.argv);
    xfree(path);
    return status;
}

static void add_tools(void);

/* As bash finds one in its table (builtin_address_internal in its builtins/common.c). */
static struct builtin *builtin_in_table(const char *name, bool disabled_too)
{
    int from = 0, to = num_shell_builtins;
    while (from < to) {
        int middle = (from + to) / 2;
        struct builtin *one = &shell_builtins[middle];
        int order = strcmp(one->name, name);
        if (order == 0)
            return one->function && !(one->flags & BUILTIN_DELETED) &&
                           (disabled_too || (one->flags & BUILTIN_ENABLED))
                       ? one
                       : NULL;
        if (order > 0)
            to = middle;
        else
            from = middle + 1;
    }
    return NULL;
}

/* bash itself has no builtins with a slash in their names: such a one is asked for to be executed. */
static struct builtin *builtin_by_path(const char *path)
{
    enum tool tool = restricted || tools_are_hidden() ? TOOLS_KNOWN : tool_by_path(path);
    struct builtin *found = tool < TOOLS_KNOWN ? builtin_in_table(tool_name(tool), false) : NULL;
    return found && is_tool(found->function) ? found : NULL;
}

/* bash asks which builtin a command is before it does anything for it, redirections and variables
   of its own included: where a builtin would show, there is none. It asks by a function that an optimizer
   takes into its callers (find_shell_builtin), and that by this one. */
static struct builtin *our_builtin_address(const char *name, int disabled_too)
{
    add_tools();
    has_come(FINDING, name);
    if (disabled_too)
        return builtin_in_table(name, true);
    struct builtin *found =
        strchr(name, '/') ? builtin_by_path(name) : builtin_in_table(name, false);
    return found && is_tool(found->function) && !shell_is_plain() ? NULL : found;
}

/* The versions whose functions and tables are as bash.h has them, and that print commands alike. */
static bool is_known_version(void)
{
    static const char *const KNOWN[] = {"5.1", "5.2", "5.3"};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (strcmp(dist_version, KNOWN[i]) == 0)
            return true;
    return false;
}

/* An interactive shell, and a bash of another version, keep what they are. */
__attribute__((constructor)) static void load(void)
{
    static struct detour finding;
    is_reached = was_reached();
    if (!is_known_version() || stack_is_small())
        return;
    read_known((void *)load);
    remember_limits();
    ready = take_over_calls() && hide_tools() &&
            lead(&finding, builtin_address_internal, our_builtin_address) && take_over_substitution() &&
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
    FOR_BASH int name_##_builtin_load(char *name) { return name && ready && calls_are_led(); }                     \
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
    if (interactive_shell || privileged_mode || !calls_are_led())
        return;
#define AS_ENTRY(name, act) name##_struct,
    const struct builtin tools[] = {TOOLS(AS_ENTRY)};
    add_builtins(tools, sizeof tools / sizeof *tools);
}
