#include <stdlib.h>
#include <string.h>

#include "../count.h"
#include "../known.h"
#include "../plain.h"
#include "bash.h"
#include "pure.h"
#include "shell.h"
#include "tools.h"

enum { MOST_STAGES = 4, MOST_WORDS = 64, LONGEST_TEXT = 8192, DEEPEST = 2 };

/* A pipeline's commands: words as they are written. */
struct pipeline {
    char text[LONGEST_TEXT];
    char *words[MOST_WORDS];
    int begins[MOST_STAGES + 1]; /* at which word */
    int stages;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether a variable's value is computed when it is asked for, for the shell or command that asks,
   or is another variable's. */
static bool is_computed(const char *name)
{
    static const char *const COMPUTED[] = {"_", "COMP_WORDBREAKS", "DIRSTACK", "FUNCNAME", "GROUPS",
                                           "HISTCMD", "LINENO", "PIPESTATUS", "SHELLOPTS"};
    for (size_t i = 0; i < sizeof COMPUTED / sizeof *COMPUTED; i++)
        if (strcmp(name, COMPUTED[i]) == 0)
            return true;
    if (strncmp(name, "BASH", 4) == 0 || is_of_each_process(name))
        return true;
    const struct variable *variable = find_variable_noref(name);
    return variable && (variable->dynamic_value || (variable->attributes & ATT_NAMEREF));
}

/* The end of "$name", "${name}" or "$1", without the dollar. NULL: it is another expansion, or what
   it gives is each process's own. */
static const char *skip_variable(const char *at)
{
    bool braces = *at == '{';
    char name[128];
    at += braces;
    size_t length = is_digit(*at) ? 1 : strspn(at, LETTERS);
    if (length == 0 || length >= sizeof name || (!is_digit(*at) && !is_letter(*at)))
        return NULL;
    memcpy(name, at, length);
    name[length] = '\0';
    at += length;
    if ((braces && *at++ != '}') || (is_letter(name[0]) && is_computed(name)))
        return NULL;
    return at;
}

/* The end of one word; NULL: there is something in it that is not understood. */
static const char *skip_word(const char *at)
{
    while (*at && !strchr(" \t\n|", *at)) {
        if (*at == '\'') {
            at = strchr(at + 1, '\'');
            if (!at++)
                return NULL;
        } else if (*at == '"') {
            for (at++; *at != '"';) {
                if (!*at || *at == '`' || *at == '!')
                    return NULL;
                if (*at == '\\' && at[1])
                    at += 2;
                else if (*at == '$' && (is_letter(at[1]) || is_digit(at[1]) || at[1] == '{')) {
                    if (!(at = skip_variable(at + 1)))
                        return NULL;
                } else if (*at == '$' && strchr("([@*#?-$!'", at[1]))
                    return NULL;
                else
                    at++;
            }
            at++;
        } else if (*at == '$') {
            if (!(at = skip_variable(at + 1)))
                return NULL;
        } else if (*at == '\\') {
            if (!at[1] || at[1] == '\n')
                return NULL;
            at += 2;
        } else if (is_letter(*at) || is_digit(*at) || strchr("./,:=@%+-", *at))
            at++;
        else
            return NULL;
    }
    return at;
}

static bool read_pipeline(const char *text, struct pipeline *pipeline)
{
    size_t length = strlen(text);
    int words = 0;
    if (length >= sizeof pipeline->text || strpbrk(text, "\001\177"))
        return false;
    memcpy(pipeline->text, text, length + 1);
    pipeline->stages = 0;
    pipeline->begins[0] = 0;
    for (char *at = pipeline->text;;) {
        at += strspn(at, " \t");
        if (*at == '\n' && at[strspn(at, " \t\n")] == '\0')
            *at = '\0';
        bool is_pipe = *at == '|';
        if (is_pipe || !*at) {
            if (words == pipeline->begins[pipeline->stages] || pipeline->stages == MOST_STAGES)
                return false;
            pipeline->begins[++pipeline->stages] = words;
            if (!is_pipe)
                return true;
            *at++ = '\0';
            continue;
        }
        const char *end = skip_word(at);
        if (!end || words == MOST_WORDS)
            return false;
        pipeline->words[words++] = at;
        at = (char *)end;
        if (*at == ' ' || *at == '\t')
            *at++ = '\0';
    }
}

/* The words of a stage, expanded by bash as for any command. They are to be disposed of. */
static WORD_LIST *expand(const struct pipeline *pipeline, int stage)
{
    WORD_LIST *written = NULL;
    /* An assignment is no command. */
    if (strchr(pipeline->words[pipeline->begins[stage]], '='))
        return NULL;
    for (int i = pipeline->begins[stage + 1]; i-- > pipeline->begins[stage];)
        written = make_word_list(make_word(pipeline->words[i]), written);
    WORD_LIST *words = expand_words_no_vars(written);
    dispose_words(written);
    return words;
}

static bool is_builtin(const char *name)
{
    struct builtin *found = builtin_address_internal((char *)name, 0);
    return found && !found->handle;
}

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

/* The program that bash would execute, without a trace in its table of them. To be freed. */
static char *program(const char *name)
{
    BUCKET_CONTENTS *known = hashed_filenames ? hash_search(name, hashed_filenames, 0) : NULL;
    if (!known)
        return find_user_command(name);
    known->times_found--;
    const struct path_data *data = known->data;
    return data->flags ? NULL : strcpy(xmalloc(strlen(data->path) + 1), data->path);
}

static bool only_reads(enum tool tool)
{
    switch (tool) {
    case TOOL_basename: case TOOL_cat: case TOOL_dirname: case TOOL_expr: case TOOL_grep:
    case TOOL_readlink: case TOOL_realpath: case TOOL_sed: case TOOL_uname: return true;
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
    const char *name = argv[0];
    char *path = strchr(name, '/') ? strcpy(xmalloc(strlen(name) + 1), name) : program(name);
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
    char text[LONGEST_TEXT];
    size_t size = 0;
    struct pipeline inner;
    for (; words; words = words->next) {
        size_t length = strlen(words->word->word);
        if (length + 2 > sizeof text - size)
            return false;
        memcpy(text + size, words->word->word, length);
        size += length;
        text[size++] = words->next ? ' ' : '\0';
    }
    return size && text[0] != '-' && read_pipeline(text, &inner) && inner.stages == 1 &&
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
    if (!is_builtin(name))
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
static bool shell_adds_nothing(void)
{
    enum { DEBUG = NSIG, ERROR = NSIG + 1 };
    return !job_control && !echo_command_at_execute && !read_but_dont_execute &&
           !unbound_vars_is_error && !fail_glob_expansion && !restricted && !temporary_env &&
           !tempenv_assign_error && !signal_is_trapped(SIGCHLD) &&
           !signal_is_trapped(DEBUG) && !signal_is_trapped(ERROR) && !a_limit_is_lower();
}

bool run_purely(const char *text, struct capture *said, int *status)
{
    static struct capture between[2];
    struct pipeline pipeline;
    enum tool tools[MOST_STAGES];
    bool is_done = shell_adds_nothing() && read_pipeline(text, &pipeline);
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
    for (int stage = 0; is_done && stage < pipeline.stages; stage++)
        if (tools[stage] < TOOLS_KNOWN)
            count(tools[stage], AVOIDED);
    return is_done;
}
