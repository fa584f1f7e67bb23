/* dirname, basename, readlink, realpath: what a path says. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "path.h"
#include "plain.h"
#include "request.h"

#define LONGEST 4096 /* bytes that a pipe takes at once */

const char *last_component(const char *path)
{
    const char *base = path;
    while (*base == '/')
        base++;
    bool slash = false;
    for (const char *at = base; *at; at++) {
        if (*at == '/')
            slash = true;
        else if (slash) {
            base = at;
            slash = false;
        }
    }
    return base;
}

size_t without_slashes(const char *name)
{
    size_t size = strlen(name);
    while (size > 1 && name[size - 1] == '/')
        size--;
    return size;
}

bool two_have_one_name(char **paths, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) {
            const char *one = last_component(paths[i]), *other = last_component(paths[j]);
            size_t size = without_slashes(one);
            if (size == without_slashes(other) && memcmp(one, other, size) == 0)
                return true;
        }
    return false;
}

struct text {
    char bytes[LONGEST];
    size_t size;
};

static bool add(struct text *text, const char *bytes, size_t size)
{
    if (size + 1 > sizeof text->bytes - text->size)
        return false;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size++] = '\n';
    return true;
}

/* As gnulib's dir_len. */
static bool add_directory(struct text *text, const char *path)
{
    size_t size = last_component(path) - path, root = path[0] == '/';
    while (size > root && path[size - 1] == '/')
        size--;
    return size ? add(text, path, size) : add(text, ".", 1);
}

bool act_dirname(struct request *request)
{
    struct text text = {.size = 0};
    if (!options(request, "") || left(request) == 0)
        return false;
    for (int at = request->first; at < request->argc; at++)
        if (!add_directory(&text, request->argv[at]))
            return false;
    return say(text.bytes, text.size);
}

bool act_basename(struct request *request)
{
    struct text text = {.size = 0};
    if (!options(request, "") || left(request) < 1 || left(request) > 2)
        return false;
    const char *path = operand(request), *name = last_component(path);
    if (!*name)
        name = path; /* a root, or nothing at all */
    size_t size = *name ? without_slashes(name) : 0;
    if (left(request) == 2 && *name != '/') {
        const char *suffix = request->argv[request->first + 1];
        size_t end = strlen(suffix);
        if (end < size && memcmp(name + size - end, suffix, end) == 0)
            size -= end;
    }
    return add(&text, name, size) && say(text.bytes, text.size);
}

static bool say_real(const char *path)
{
    struct text text = {.size = 0};
    char real[PATH_MAX];
    return is_for_all(path, true) && realpath(path, real) && add(&text, real, strlen(real)) &&
           say(text.bytes, text.size);
}

bool act_readlink(struct request *request)
{
    struct text text = {.size = 0};
    char to[PATH_MAX];
    if (!options(request, "f") || left(request) != 1)
        return false;
    if (has(request, 'f'))
        return say_real(operand(request));
    if (!is_for_all(operand(request), false))
        return false;
    ssize_t size = readlink(operand(request), to, sizeof to);
    return size > 0 && (size_t)size < sizeof to && add(&text, to, size) &&
           say(text.bytes, text.size);
}

bool act_realpath(struct request *request)
{
    return options(request, "") && left(request) == 1 && say_real(operand(request));
}
