/* grep: one basic regular expression, or one string, in one file of ASCII. */
#define _GNU_SOURCE
#include <string.h>

#include "input.h"
#include "pattern.h"

/* GNU grep's own variables colour what it says. */
static bool has_own_variables(char *const *envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "GREP_", 5) == 0)
            return true;
    return false;
}

static bool is_in(const struct request *request, const regex_t *pattern, const char *string,
                  const char *line, size_t size)
{
    regmatch_t groups[GROUPS];
    bool is = has(request, 'F') ? memmem(line, size, string, strlen(string)) != NULL
                                : match(pattern, line, size, 0, groups);
    return is != has(request, 'v');
}

/* Selects lines; each has an end in what is said. */
static size_t select_lines(const struct request *request, const regex_t *pattern,
                           const char *string, const struct input *input, char *out, size_t *size)
{
    size_t count = 0;
    const char *at = input->bytes, *end = at + input->size;
    while (at < end) {
        const char *newline = memchr(at, '\n', end - at);
        size_t length = (newline ? newline : end) - at;
        if (is_in(request, pattern, string, at, length)) {
            count++;
            memcpy(out + *size, at, length);
            *size += length;
            out[(*size)++] = '\n';
        }
        at += length + 1;
    }
    return count;
}

static bool search(struct request *request, const regex_t *pattern, const char *string)
{
    char *out = made;
    struct input input;
    size_t size = 0;
    request->first++;
    if (left(request) > 1 || !take_input(request, &input))
        return false;
    /* A file that is standard input is read as far as is needed, and no further. */
    if (input.is_file || !is_ascii(input.bytes, input.size)) {
        give_back(&input);
        return false;
    }
    request->status = select_lines(request, pattern, string, &input, out, &size) == 0;
    return say_for(&input, out, has(request, 'q') ? 0 : size);
}

bool act_grep(struct request *request)
{
    regex_t pattern;
    if (!options(request, "qvF") || left(request) == 0 || has_own_variables(request->envp) ||
        !locale_is_plain(request->envp))
        return false;
    const char *string = operand(request);
    if (has(request, 'F'))
        return *string && !strchr(string, '\n') && is_ascii(string, strlen(string)) &&
               search(request, NULL, string);
    if (!compile_pattern(string, &pattern))
        return false;
    bool is_done = search(request, &pattern, string);
    regfree(&pattern);
    return is_done;
}
