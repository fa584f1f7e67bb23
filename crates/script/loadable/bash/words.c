#include <stdlib.h>
#include <string.h>

#include "bash.h"
#include "shell.h"
#include "words.h"

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

const char *skip_word(const char *at)
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

/* Takes "2>&1", "> word" or ">> word" from its operator on. NULL: it is another. */
static char *take_redirection(char *at, struct pipeline *pipeline)
{
    if (pipeline->redirected == MOST_REDIRECTIONS)
        return NULL;
    struct redirection *one = &pipeline->redirections[pipeline->redirected++];
    *one = (struct redirection){.descriptor = 1};
    if (is_digit(*at))
        one->descriptor = *at++ - '0';
    at++;
    if (*at == '&') {
        one->from = at[1] - '0';
        return is_digit(at[1]) && strchr(" \t\n", at[2]) ? at + 2 : NULL;
    }
    one->appends = *at == '>';
    at += one->appends;
    at += strspn(at, " \t");
    one->word = at;
    const char *end = skip_word(at);
    return end == at ? NULL : (char *)end;
}

static bool begins_redirection(const char *at)
{
    return *at == '>' || (is_digit(*at) && at[1] == '>');
}

/* Adds a stage's words and redirections up to its end. NULL: there is something else in it. */
static char *take_stage(char *at, struct pipeline *pipeline, int *words)
{
    for (;;) {
        at += strspn(at, " \t");
        if (*at == '\n' && at[strspn(at, " \t\n")] == '\0')
            *at = '\0';
        if (!*at || *at == '|')
            return at;
        if (*at == ')' && pipeline->is_subshell && pipeline->inner < 0) {
            pipeline->inner = pipeline->redirected;
            *at++ = '\0';
            continue;
        }
        char *end;
        if (begins_redirection(at))
            end = take_redirection(at, pipeline);
        else if (*words < MOST_WORDS && pipeline->inner < 0) {
            pipeline->words[(*words)++] = at;
            end = (char *)skip_word(at);
        } else
            end = NULL;
        if (!(at = end))
            return NULL;
        if (*at == ' ' || *at == '\t')
            *at++ = '\0';
    }
}

bool read_pipeline(const char *text, struct pipeline *pipeline)
{
    size_t length = strlen(text);
    int words = 0;
    if (length >= sizeof pipeline->text || strpbrk(text, "\001\177"))
        return false;
    memcpy(pipeline->text, text, length + 1);
    pipeline->stages = pipeline->redirected = 0;
    pipeline->begins[0] = 0;
    pipeline->inner = -1;
    pipeline->is_subshell = strncmp(text, "( ", 2) == 0;
    for (char *at = pipeline->text + (pipeline->is_subshell ? 2 : 0);; *at++ = '\0') {
        at = take_stage(at, pipeline, &words);
        if (!at || words == pipeline->begins[pipeline->stages] || pipeline->stages == MOST_STAGES)
            return false;
        pipeline->begins[++pipeline->stages] = words;
        if (!*at)
            return !pipeline->is_subshell || (pipeline->inner >= 0 && pipeline->stages == 1);
    }
}

bool is_simple(const struct pipeline *pipeline)
{
    return pipeline->redirected == 0 && !pipeline->is_subshell;
}

WORD_LIST *expand(const struct pipeline *pipeline, int stage)
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

bool is_builtin_of_bash(const char *name)
{
    struct builtin *found = builtin_address_internal((char *)name, 0);
    return found && !found->handle;
}

char *program_of_word(const char *name)
{
    if (strchr(name, '/'))
        return strcpy(xmalloc(strlen(name) + 1), name);
    BUCKET_CONTENTS *known = hashed_filenames ? hash_search(name, hashed_filenames, 0) : NULL;
    if (!known)
        return find_user_command(name);
    known->times_found--;
    const struct path_data *data = known->data;
    return data->flags ? NULL : strcpy(xmalloc(strlen(data->path) + 1), data->path);
}

bool read_eval(const WORD_LIST *words, struct pipeline *inner)
{
    char text[LONGEST_TEXT];
    size_t size = 0;
    for (; words; words = words->next) {
        size_t length = strlen(words->word->word);
        if (length + 2 > sizeof text - size)
            return false;
        memcpy(text + size, words->word->word, length);
        size += length;
        text[size++] = words->next ? ' ' : '\0';
    }
    return size && text[0] != '-' && read_pipeline(text, inner) && inner->stages == 1 &&
           !inner->is_subshell;
}
