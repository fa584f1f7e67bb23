/* cut: bytes, or fields between delimiters. */
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "pattern.h"

enum { MOST_RANGES = 16, ENDLESS = 1 << 30 };

struct cut {
    struct { long from, to; } ranges[MOST_RANGES];
    int count;
    char kind;      /* f, b or c */
    char delimiter;
    bool only_delimited;
};

/* A number of a list; another where there is none. */
static long take_number(const char **at, long otherwise)
{
    size_t length = strspn(*at, "0123456789");
    long number = length == 0 ? otherwise : length < 9 ? atol(*at) : 0;
    *at += length;
    return number;
}

static bool take_list(const char *list, struct cut *cut)
{
    for (cut->count = 0; cut->count < MOST_RANGES; list++) {
        bool has_first = *list != '-';
        long from = take_number(&list, has_first ? 0 : 1), to = from;
        if (*list == '-') {
            list++;
            to = take_number(&list, has_first ? ENDLESS : 0);
        }
        if (from < 1 || to < from || (*list && *list != ','))
            return false;
        cut->ranges[cut->count].from = from;
        cut->ranges[cut->count++].to = to;
        if (!*list)
            return true;
    }
    return false;
}

static bool is_in(const struct cut *cut, long number)
{
    for (int i = 0; i < cut->count; i++)
        if (cut->ranges[i].from <= number && number <= cut->ranges[i].to)
            return true;
    return false;
}

/* -f, -b or -c LIST, -d DELIMITER, -s. */
static bool take_options(struct request *request, struct cut *cut)
{
    int at = 1;
    bool has_delimiter = false;
    *cut = (struct cut){.delimiter = '\t'};
    for (; at < request->argc && request->argv[at][0] == '-' && request->argv[at][1]; at++) {
        const char *word = request->argv[at], option = word[1], *value = word + 2;
        if (option == 's' && !*value && !cut->only_delimited) {
            cut->only_delimited = true;
            continue;
        }
        if (!strchr("fbcd", option) || (!*value && ++at == request->argc))
            return false;
        value = *value ? value : request->argv[at];
        if (option == 'd') {
            if (strlen(value) != 1 || *value == '\n' || *value < 0 || has_delimiter)
                return false;
            cut->delimiter = *value;
            has_delimiter = true;
        } else if (cut->kind || !take_list(value, cut))
            return false;
        else
            cut->kind = option;
    }
    request->first = at;
    for (; at < request->argc; at++)
        if (request->argv[at][0] == '-' && request->argv[at][1])
            return false;
    return cut->kind && (cut->kind == 'f' || (!has_delimiter && !cut->only_delimited));
}

static size_t put_fields(const struct cut *cut, const char *line, size_t size, char *out)
{
    size_t put = 0;
    bool has_one = false;
    if (!memchr(line, cut->delimiter, size)) {
        if (cut->only_delimited)
            return 0;
        memcpy(out, line, size);
        out[size] = '\n';
        return size + 1;
    }
    for (long number = 1;; number++) {
        const char *end = memchr(line, cut->delimiter, size);
        size_t length = end ? (size_t)(end - line) : size;
        if (is_in(cut, number)) {
            if (has_one)
                out[put++] = cut->delimiter;
            memcpy(out + put, line, length);
            put += length;
            has_one = true;
        }
        if (!end)
            break;
        line += length + 1;
        size -= length + 1;
    }
    out[put++] = '\n';
    return put;
}

static size_t put_bytes(const struct cut *cut, const char *line, size_t size, char *out)
{
    size_t put = 0;
    for (size_t i = 0; i < size; i++)
        if (is_in(cut, i + 1))
            out[put++] = line[i];
    out[put++] = '\n';
    return put;
}

bool act_cut(struct request *request)
{
    char *out = made;
    struct input input;
    struct cut cut;
    size_t size = 0;
    if (!take_options(request, &cut) || !locale_is_plain(request->envp) ||
        left(request) > 1 || !take_input(request, &input))
        return false;
    if (!is_ascii(input.bytes, input.size)) {
        give_back(&input);
        return false;
    }
    const char *end = input.bytes + input.size;
    for (const char *at = input.bytes; at < end;) {
        const char *newline = memchr(at, '\n', end - at);
        size_t length = (newline ? newline : end) - at;
        size += (cut.kind == 'f' ? put_fields : put_bytes)(&cut, at, length, out + size);
        at += length + 1;
    }
    return say_for(&input, out, size);
}
