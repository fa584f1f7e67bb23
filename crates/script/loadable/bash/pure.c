#include <stdlib.h>
#include <string.h>

#include "../count.h"
#include "../known.h"
#include "../plain.h"
#include "bash.h"
#include "pure.h"
#include "shell.h"
#include "tools.h"
#include "words.h"

static bool say_echo(const WORD_LIST *words)
{
    if (xpg_echo || (words && words->word->word[0] == '-'))
        return false;
    for (; words; words = words->next)
        if (!say(words->word->word, strlen(words->word->word)) ||
            (words->next && !say(" ", 1)))
            return false;
    return say("\n", 1);
}

static bool say_printf(const WORD_LIST *words)
{
    if (!words || !words->next || words->next->next)
        return false;
    const char *format = words->word->word, *what = words->next->word->word;
    bool has_end = strcmp(format, "%s\\n") == 0;
    return (has_end || strcmp(format, "%s") == 0) && say(what, strlen(what)) &&
           (!has_end || say("\n", 1));
}

static bool only_reads(enum tool tool)
{
    switch (tool) {
    case TOOL_basename: case TOOL_cat: case TOOL_cut: case TOOL_date: case TOOL_dirname:
    case TOOL_expr: case TOOL_grep: case TOOL_head: case TOOL_ls: case TOOL_readlink:
    case TOOL_realpath: case TOOL_sed: case TOOL_sort: case TOOL_tail: case TOOL_tr:
    case TOOL_uname: case TOOL_wc: return true;
    default: return false;
    }
}

static bool run_tool(enum tool tool, const WORD_LIST *words, const struct capture *from, int *status)
{
    char *argv[MOST_WORDS + 1];
    struct request request = {.argv = argv, .no_input = true};
    if (!only_reads(tool))
        return false;
    for (; words; words = words->next) {
        if (request.argc == MOST_WORDS)
            return false;
        argv[request.argc++] = words->word->word;
    }
    argv[request.argc] = NULL;
    if (from) {
        request.is_filter = true;
        request.in = from->bytes;
        request.in_size = from->size;
    }
    maybe_make_export_env();
    char *path = program_of_word(argv[0]);
    bool is_done = path && would_do_inside(tool, path, &request, export_env);
    xfree(path);
    *status = request.status;
    return is_done;
}

static bool run_stage(const struct pipeline *pipeline, int stage, const struct capture *from,
                      enum tool *tool, int *status, int depth);

/* eval reads its words once more. */
static bool run_eval(const WORD_LIST *words, const struct capture *from, enum tool *tool,
                     int *status, int depth)
{
    struct pipeline inner;
    return read_eval(words, &inner) && is_simple(&inner) &&
           run_stage(&inner, 0, from, tool, status, depth + 1);
}

static bool run_words(const WORD_LIST *words, const struct capture *from, enum tool *tool,
                      int *status, int depth)
{
    const char *name = words->word->word;
    *status = 0;
    *tool = tool_of_word(name);
    if (find_function(name) || (aliases && find_alias((char *)name)))
        return false;
    if (*tool < TOOLS_KNOWN)
        return run_tool(*tool, words, from, status);
    if (!is_builtin_of_bash(name))
        return false;
    if (strcmp(name, "echo") == 0)
        return say_echo(words->next);
    if (strcmp(name, "printf") == 0)
        return say_printf(words->next);
    return strcmp(name, "eval") == 0 && depth < DEEPEST &&
           run_eval(words->next, from, tool, status, depth);
}

static bool run_stage(const struct pipeline *pipeline, int stage, const struct capture *from,
                      enum tool *tool, int *status, int depth)
{
    const char *written = pipeline->words[pipeline->begins[stage]];
    /* An alias is looked for before words are expanded. */
    if (aliases && find_alias((char *)written))
        return false;
    WORD_LIST *words = expand(pipeline, stage);
    bool is_done = words && run_words(words, from, tool, status, depth);
    if (words)
        dispose_words(words);
    return is_done;
}

/* What has a child do more, or say more, than its commands. */
bool shell_adds_nothing(void)
{
    enum { DEBUG = NSIG, ERROR = NSIG + 1 };
    return !job_control && !echo_command_at_execute && !read_but_dont_execute &&
           !echo_input_at_read && !place_keywords_in_env && !unbound_vars_is_error &&
           !fail_glob_expansion && !restricted && !temporary_env && !tempenv_assign_error &&
           !signal_is_trapped(SIGCHLD) && !signal_is_trapped(DEBUG) &&
           !signal_is_trapped(ERROR) && !a_limit_is_lower();
}

bool run_purely(const char *text, struct capture *said, int *status)
{
    static struct capture between[2];
    struct pipeline pipeline;
    enum tool tools[MOST_STAGES];
    char first[LONGEST_TEXT];
    /* An alias may be anything. */
    bool is_list = !aliases && take_first_of_list(text, first);
    bool is_done = shell_adds_nothing() && read_pipeline(is_list ? first : text, &pipeline) &&
                   is_simple(&pipeline);
    for (int stage = 0; is_done && stage < pipeline.stages; stage++) {
        bool is_last = stage + 1 == pipeline.stages;
        struct capture *to = is_last ? said : &between[stage % 2];
        to->size = 0;
        capture(to);
        is_done = run_stage(&pipeline, stage, stage ? &between[(stage - 1) % 2] : NULL,
                            &tools[stage], status, 0) &&
                  (is_last || *status == 0 || !pipefail_opt);
        capture(NULL);
    }
    /* What comes behind "||" may do anything. */
    is_done = is_done && (!is_list || *status == 0);
    for (int stage = 0; is_done && stage < pipeline.stages; stage++)
        if (tools[stage] < TOOLS_KNOWN)
            count(tools[stage], AVOIDED, 1);
    return is_done;
}
