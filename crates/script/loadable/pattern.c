#include <locale.h>
#include <string.h>

#include "pattern.h"

/* The end of a bracket expression, behind "]"; NULL: not understood. Behind a backslash stand only
   characters with which no program has an escape of its own. */
static const char *skip_bracket(const char *at)
{
    at += *at == '^';
    /* "[:alpha:]" alone is a mistake that GNU's programs complain of. */
    if (*at == ':')
        return NULL;
    at += *at == ']';
    for (; *at && *at != ']'; at++) {
        if (*at == '[' && strchr(":.=", at[1])) {
            static const char *const CLASS[] = {"[:alpha:]", "[:digit:]", "[:alnum:]",
                                                "[:upper:]", "[:lower:]", "[:space:]",
                                                "[:blank:]", "[:punct:]"};
            size_t i = 0;
            while (i < sizeof CLASS / sizeof *CLASS && strncmp(at, CLASS[i], 9) != 0)
                i++;
            if (at[1] != ':' || i == sizeof CLASS / sizeof *CLASS)
                return NULL;
            at += 8;
        }
        if (*at == '\\' && !strchr("\\/$\"'`&.*-", at[1]) && at[1] != ']')
            return NULL;
    }
    return *at ? at + 1 : NULL;
}

static bool is_plain(const char *pattern)
{
    int open = 0;
    const char *at = pattern + (*pattern == '^');
    if (!*pattern || strlen(pattern) > 1024)
        return false;
    /* What may be repeated comes before the star. */
    for (bool repeatable = false; *at; repeatable = true)
        switch (*at) {
        case '\n': return false;
        case '^': return false;
        case '$':
            if (at[1])
                return false;
            at++;
            break;
        case '*':
            if (!repeatable)
                return false;
            at++;
            if (*at == '*')
                return false;
            break;
        case '[':
            if (!(at = skip_bracket(at + 1)))
                return false;
            break;
        case '\\':
            if (at[1] == '(' || at[1] == ')') {
                open += at[1] == '(' ? 1 : -1;
                if (open < 0 || (at[1] == '(' && (at[2] == '*' || at[2] == '^')))
                    return false;
                /* A repeated group's own match is a matter of taste. */
                if (at[1] == ')' && (at[2] == '*' || at[-1] == '('))
                    return false;
            } else if (!at[1] || !strchr(".*[]$^/\\", at[1]))
                return false;
            at += 2;
            break;
        default: at++;
        }
    return open == 0;
}

bool compile_pattern(const char *pattern, regex_t *compiled)
{
    return is_plain(pattern) && is_ascii(pattern, strlen(pattern)) &&
           regcomp(compiled, pattern, 0) == 0;
}

bool match(const regex_t *compiled, const char *text, size_t size, size_t from, regmatch_t *groups)
{
    groups[0].rm_so = from;
    groups[0].rm_eo = size;
    return regexec(compiled, text, GROUPS, groups, REG_STARTEND) == 0;
}

bool is_ascii(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] <= 0)
            return false;
    return true;
}

static bool is_plain_name(const char *name)
{
    static const char *const PLAIN[] = {"", "C", "POSIX", "C.UTF-8", "C.utf8"};
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++)
        if (strcmp(name, PLAIN[i]) == 0)
            return true;
    return false;
}

bool locale_is_plain(char *const *envp)
{
    for (; *envp; envp++) {
        bool is_one = strncmp(*envp, "LC_", 3) == 0 || strncmp(*envp, "LANG=", 5) == 0;
        const char *value = strchr(*envp, '=');
        if (is_one && value && !is_plain_name(value + 1))
            return false;
    }
    return is_plain_name(setlocale(LC_CTYPE, NULL)) && is_plain_name(setlocale(LC_COLLATE, NULL));
}
