/* head, tail, wc -l and sort: of what is there at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "input.h"
#include "pattern.h"

/* The number of an option "-n 5", "-n5" or "-5"; behind a "+" where that is allowed. False: another. */
static bool take_number(struct request *request, long *number, bool *is_from)
{
    int at = 1;
    const char *word = at < request->argc ? request->argv[at] : "";
    *number = 10;
    if (word[0] == '-' && word[1]) {
        const char *digits = word + 1;
        if (*digits == 'n') {
            digits++;
            if (!*digits)
                digits = ++at < request->argc ? request->argv[at] : "";
            if (is_from && *digits == '+') {
                *is_from = true;
                digits++;
            }
        }
        size_t length = strspn(digits, "0123456789");
        if (length == 0 || length > 8 || digits[length])
            return false;
        *number = atol(digits);
        at++;
    }
    request->first = at;
    return left(request) == 0 || (left(request) == 1 && operand(request)[0] != '-');
}

/* The byte behind so many lines. */
static size_t behind_lines(const struct input *input, long lines)
{
    size_t at = 0;
    while (lines-- > 0 && at < input->size) {
        const char *newline = memchr(input->bytes + at, '\n', input->size - at);
        at = newline ? (size_t)(newline + 1 - input->bytes) : input->size;
    }
    return at;
}

/* Where the last so many lines begin. */
static size_t begin_of_last(const struct input *input, long lines)
{
    size_t at = input->size;
    if (lines == 0)
        return at;
    at -= at > 0 && input->bytes[at - 1] == '\n';
    for (; at > 0; at--)
        if (input->bytes[at - 1] == '\n' && --lines == 0)
            return at;
    return 0;
}

/* A file that is standard input is read as far as is needed; a pipe so much at once. */
bool act_head(struct request *request)
{
    struct input input;
    long lines;
    if (!take_number(request, &lines, NULL) || !take_input(request, &input))
        return false;
    if (input.is_file || (input.is_pipe && (lines == 0 || input.stdin_size > BUFSIZ))) {
        give_back(&input);
        return false;
    }
    return say_for(&input, input.bytes, behind_lines(&input, lines));
}

bool act_tail(struct request *request)
{
    struct input input;
    long lines;
    bool is_from = false;
    /* Of nothing, the last lines are not even looked for. */
    if (!take_number(request, &lines, &is_from) || (lines == 0 && !is_from) ||
        !take_input(request, &input))
        return false;
    if (input.is_file) {
        give_back(&input);
        return false;
    }
    size_t from = is_from ? behind_lines(&input, lines - 1) : begin_of_last(&input, lines);
    return say_for(&input, input.bytes + from, input.size - from);
}

bool act_wc(struct request *request)
{
    struct input input;
    char said[4200];
    if (!options(request, "l") || !has(request, 'l') || left(request) > 1)
        return false;
    const char *name = left(request) ? operand(request) : NULL;
    if (name && (strlen(name) > 4096 || strchr(name, '\n')))
        return false;
    if (!take_input(request, &input))
        return false;
    size_t count = 0;
    for (size_t i = 0; i < input.size; i++)
        count += input.bytes[i] == '\n';
    int size = sprintf(said, name ? "%zu %s\n" : "%zu\n", count, name);
    return say_for(&input, said, size);
}

struct text {
    const char *bytes;
    size_t size;
};

/* As memory is, in the locales here. */
static int compare(const void *one, const void *other)
{
    const struct text *a = one, *b = other;
    int which = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
    return which ? which : (a->size > b->size) - (a->size < b->size);
}

static size_t put_sorted(const struct request *request, const struct input *input,
                         struct text *texts, char *out)
{
    size_t count = 0, size = 0;
    const char *end = input->bytes + input->size;
    for (const char *at = input->bytes; at < end; count++) {
        const char *newline = memchr(at, '\n', end - at);
        texts[count] = (struct text){at, (newline ? newline : end) - at};
        at += texts[count].size + 1;
    }
    qsort(texts, count, sizeof *texts, compare);
    for (size_t i = 0; i < count; i++) {
        const struct text *text = &texts[has(request, 'r') ? count - 1 - i : i];
        const struct text *before = &texts[has(request, 'r') ? count - i : i - 1];
        if (has(request, 'u') && i > 0 && compare(text, before) == 0)
            continue;
        memcpy(out + size, text->bytes, text->size);
        size += text->size;
        out[size++] = '\n';
    }
    return size;
}

bool act_sort(struct request *request)
{
    char *out = made;
    struct input input;
    if (!options(request, "ru") || left(request) > 1 || !locale_is_plain(request->envp) ||
        !take_input(request, &input))
        return false;
    if (!is_ascii(input.bytes, input.size)) {
        give_back(&input);
        return false;
    }
    /* A line takes a byte at least. It is a MiB, which the shell is not to have all the time (ulimit -d). */
    size_t room = (input.size + 1) * sizeof(struct text);
    void *texts = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (texts == MAP_FAILED) {
        give_back(&input);
        return false;
    }
    size_t size = put_sorted(request, &input, texts, out);
    munmap(texts, room);
    return say_for(&input, out, size);
}
