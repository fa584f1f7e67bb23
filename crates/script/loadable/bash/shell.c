#include <signal.h>
#include <string.h>

#include "../plain.h"
#include "bash.h"
#include "shell.h"

const char LETTERS[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

bool is_of_each_process(const char *name)
{
    static const char *const OWN[] = {"BASHPID",       "BASH_SUBSHELL", "EPOCHREALTIME",
                                      "EPOCHSECONDS",  "SECONDS",       "RANDOM",
                                      "SRANDOM"};
    /* Asking for the last two takes a number of the shell's. */
    enum { ALL = sizeof OWN / sizeof *OWN, HARMLESS = ALL - 2 };
    for (int i = 0; i < ALL; i++)
        if (!strcmp(name, OWN[i]))
            return true;
    void *variable = find_variable(name);
    /* A reference (declare -n) is what it refers to. */
    for (int i = 0; i < HARMLESS; i++)
        if (variable && variable == find_variable(OWN[i]))
            return true;
    return false;
}

/* Whether a variable has another value, or another effect, in a child: with set -u one that is not
   set ends whoever asks for it, which is the child. */
static bool variable_shows(const char *name)
{
    size_t length = strspn(name, LETTERS);
    char own[256];
    if (unbound_vars_is_error || length >= sizeof own)
        return true;
    if (length == 0 || (name[0] >= '0' && name[0] <= '9'))
        return false;
    memcpy(own, name, length);
    own[length] = '\0';
    return is_of_each_process(own) || !find_variable(own);
}

/* What is expanded in a redirection, a here-document's text among it: where it would change the
   shell, or be something else in a child. The commands of $(…) are in a child of their own anyway. */
static bool expansion_shows(const char *from, const char *end)
{
    for (const char *at = from; at < end; at++) {
        if (*at == '\\')
            at++;
        bool is_command = at[0] == '$' && at[1] == '(' && at[2] != '(';
        if (at[0] != '$' || is_command)
            continue;
        const char *name = at + 1;
        if (*name == '[' || *name == '(')
            return true;
        if (*name == '{') {
            name++;
            size_t length = strspn(name, LETTERS);
            if (length == 0 || name[length] != '}')
                return true;
        }
        if (variable_shows(name))
            return true;
    }
    return false;
}

/* bash redirects for a builtin in its own process, for a program in the child. Only there does
   /proc/self mean the child; and only from there do descriptors ("{v}>"), processes (">(…)", "$!") and
   assignments ("> log$((i += 1))") not stay, and errors not end the shell. */
static bool output_shows(const char *text)
{
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

enum { MOST_DOCUMENTS = 4, LONGEST_END = 64, LONGEST_LINE = 4096 };

/* The here-documents that a command's line asks for. */
struct documents {
    int count;
    struct {
        char end[LONGEST_END];
        bool is_quoted;
    } one[MOST_DOCUMENTS];
};

/* Takes the word behind "<<". bash prints a quoted one in single quotes. NULL: not understood. */
static const char *take_document(const char *at, struct documents *documents)
{
    if (documents->count == MOST_DOCUMENTS)
        return NULL;
    at += *at == '-';
    bool is_quoted = *at == '\'';
    at += is_quoted;
    size_t length = strspn(at, LETTERS);
    if (length == 0 || length >= LONGEST_END || (is_quoted && at[length] != '\''))
        return NULL;
    char *end = documents->one[documents->count].end;
    memcpy(end, at, length);
    end[length] = '\0';
    documents->one[documents->count++].is_quoted = is_quoted;
    at += length + is_quoted;
    return strchr(" \n", *at) ? at : NULL;
}

/* The end of what is quoted from here on; NULL: not understood. */
static const char *skip_quoted(const char *at)
{
    char quote = *at++;
    for (; *at && *at != quote; at++) {
        if (quote == '"' && (*at == '`' || (*at == '$' && strchr("({[", at[1]))))
            return NULL;
        if (quote == '"' && *at == '\\' && at[1])
            at++;
    }
    return *at ? at : NULL;
}

/* Finds a command's here-documents, and the newline that its line ends with. NULL: it reads from
   elsewhere, or is not understood. */
static const char *read_line(const char *text, struct documents *documents)
{
    const char *at = text;
    for (; *at && *at != '\n'; at++)
        switch (*at) {
        case '\\': at += at[1] != '\0'; break;
        case '\'':
        case '"':
            if (!(at = skip_quoted(at)))
                return NULL;
            break;
        case '`': return NULL;
        case '$':
            if (strchr("({['\"", at[1]))
                return NULL;
            break;
        case '<':
            /* A descriptor's number before it is another than standard input. */
            if (at[1] != '<' || at[2] == '<' || at == text || at[-1] != ' ' ||
                !(at = take_document(at + 2, documents)))
                return NULL;
            at--;
            break;
        }
    return documents->count && *at ? at : NULL;
}

static bool a_document_shows(const char *text, const struct documents *documents)
{
    for (int i = 0; i < documents->count; i++) {
        const char *end = documents->one[i].end, *from = text;
        size_t length = strlen(end);
        while (strncmp(text, end, length) != 0 || text[length] != '\n') {
            text = strchr(text, '\n');
            if (!text || !*++text)
                return true;
        }
        if (!documents->one[i].is_quoted && expansion_shows(from, text))
            return true;
        text += length + 1;
    }
    return *text != '\0';
}

static bool redirection_shows(const char *text)
{
    /* The shell's own descriptors are seen there, too. */
    if (text && strpbrk(text, "<>") && strstr(text, "/proc"))
        return true;
    if (!text || !strchr(text, '<'))
        return text && output_shows(text);
    struct documents documents = {.count = 0};
    char line[LONGEST_LINE];
    const char *end = read_line(text, &documents);
    if (!end || (size_t)(end - text) >= sizeof line)
        return true;
    memcpy(line, text, end - text);
    line[end - text] = '\0';
    return output_shows(line) || a_document_shows(end + 1, &documents);
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
