/* expr STRING : REGEX; uname. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "pattern.h"
#include "request.h"

/* What expr might take for something else than a string. */
static bool is_operator(const char *word)
{
    static const char *const OPERATORS[] = {"match", "substr", "index", "length", "+", "(", ")",
                                            "--help", "--version", "--"};
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++)
        if (strcmp(word, OPERATORS[i]) == 0)
            return true;
    return false;
}

static bool say_line(const char *bytes, size_t size)
{
    char line[4096];
    if (size + 1 > sizeof line)
        return false;
    memcpy(line, bytes, size);
    line[size] = '\n';
    return say(line, size + 1);
}

/* expr's regular expressions begin at the beginning; one that says so itself is warned of. */
static bool say_match(struct request *request, const regex_t *pattern, const char *text)
{
    regmatch_t groups[GROUPS];
    bool is_match = match(pattern, text, strlen(text), 0, groups) && groups[0].rm_so == 0;
    if (pattern->re_nsub > 0) {
        bool has_group = is_match && groups[1].rm_so >= 0;
        size_t size = has_group ? groups[1].rm_eo - groups[1].rm_so : 0;
        const char *from = has_group ? text + groups[1].rm_so : "";
        /* Nothing, and any number of zeros, are what is false. */
        size_t sign = size > 0 && from[0] == '-', digits = size - sign;
        request->status = size == 0 || (digits > 0 && strspn(from + sign, "0") >= digits);
        return say_line(from, size);
    }
    char number[24];
    int size = sprintf(number, "%d", is_match ? (int)groups[0].rm_eo : 0);
    request->status = !is_match || groups[0].rm_eo == 0;
    return say_line(number, size);
}

bool act_expr(struct request *request)
{
    regex_t pattern;
    char *const *words = request->argv;
    if (request->argc != 4 || strcmp(words[2], ":") != 0 || is_operator(words[1]) ||
        is_operator(words[3]) || words[3][0] == '^' || !is_ascii(words[1], strlen(words[1])) ||
        strlen(words[1]) > 2048 || !locale_is_plain(request->envp) ||
        !compile_pattern(words[3], &pattern))
        return false;
    bool is_done = say_match(request, &pattern, words[1]);
    regfree(&pattern);
    return is_done;
}

bool act_uname(struct request *request)
{
    struct utsname names;
    /* In the order in which uname says them. */
    static const char LETTERS[] = "snrvm";
    char text[sizeof names];
    size_t size = 0;
    if (!options(request, LETTERS) || left(request) > 0 || uname(&names) != 0)
        return false;
    const char *const values[] = {names.sysname, names.nodename, names.release, names.version,
                                  names.machine};
    bool is_default = request->options[0] == '\0';
    for (int i = 0; LETTERS[i]; i++)
        if (has(request, LETTERS[i]) || (is_default && i == 0))
            size += sprintf(text + size, "%s%s", size ? " " : "", values[i]);
    return say_line(text, size);
}
