/* tr: of sets of characters, ranges, classes and escapes, byte by byte. */
#include <ctype.h>
#include <string.h>

#include "input.h"
#include "pattern.h"

enum { BYTES = 256 };

/* Characters as they are written, once without their escapes: such a one is no operator. */
struct written {
    unsigned char byte[BYTES];
    bool is_escaped[BYTES];
    int size;
};

/* In their order, one maybe more than once. */
struct set {
    unsigned char byte[BYTES];
    int size;
    int (*class)(int); /* where that is all there is */
};

static bool unescape(const char *text, struct written *written)
{
    static const char NAME[] = "\\abfnrtv", IS[] = "\\\a\b\f\n\r\t\v";
    for (written->size = 0; *text; text++) {
        if (written->size == BYTES)
            return false;
        int number = (unsigned char)*text;
        bool is_escaped = *text == '\\';
        if (is_escaped && text[1] >= '0' && text[1] <= '7') {
            number = 0;
            for (int digits = 0; digits < 3 && text[1] >= '0' && text[1] <= '7'; digits++)
                number = number * 8 + *++text - '0';
            /* "\400" is warned of. */
            if (number >= BYTES)
                return false;
        } else if (is_escaped) {
            const char *name = text[1] ? strchr(NAME, *++text) : NULL;
            if (!name)
                return false;
            number = IS[name - NAME];
        }
        written->is_escaped[written->size] = is_escaped;
        written->byte[written->size++] = number;
    }
    return true;
}

static const struct {
    const char *name;
    int (*is)(int);
} CLASS[] = {{"[:alnum:]", isalnum}, {"[:alpha:]", isalpha}, {"[:digit:]", isdigit},
             {"[:lower:]", islower}, {"[:punct:]", ispunct}, {"[:space:]", isspace},
             {"[:upper:]", isupper}, {"[:blank:]", isblank}, {"[:cntrl:]", iscntrl}};

static bool add(struct set *set, int byte)
{
    if (set->size == BYTES)
        return false;
    set->byte[set->size++] = byte;
    return true;
}

static bool add_class(struct set *set, int (*is)(int))
{
    for (int byte = 0; byte < 128; byte++)
        if (is(byte) && !add(set, byte))
            return false;
    return true;
}

static bool begins(const struct written *written, int at, char operator)
{
    return at < written->size && written->byte[at] == operator && !written->is_escaped[at];
}

static bool read_set(const char *text, struct set *set)
{
    struct written written;
    *set = (struct set){.size = 0};
    if (!unescape(text, &written))
        return false;
    for (int at = 0; at < written.size;) {
        if (begins(&written, at, '[') &&
            (begins(&written, at + 1, ':') || begins(&written, at + 1, '='))) {
            size_t i = 0;
            while (i < sizeof CLASS / sizeof *CLASS &&
                   (at + 9 > written.size || memcmp(CLASS[i].name, written.byte + at, 9) != 0))
                i++;
            if (i == sizeof CLASS / sizeof *CLASS || !add_class(set, CLASS[i].is))
                return false;
            set->class = at == 0 && written.size == 9 ? CLASS[i].is : NULL;
            at += 9;
        } else if (begins(&written, at, '[') && begins(&written, at + 2, '*')) {
            return false;
        } else if (begins(&written, at + 1, '-') && at + 2 < written.size) {
            if (written.byte[at] > written.byte[at + 2])
                return false;
            for (int byte = written.byte[at]; byte <= written.byte[at + 2]; byte++)
                if (!add(set, byte))
                    return false;
            at += 3;
        } else if (!add(set, written.byte[at++]))
            return false;
    }
    return set->size > 0;
}

struct tr {
    bool deletes[BYTES], squeezes[BYTES];
    unsigned char to[BYTES];
};

static void members(const struct set *set, bool complement, bool *is_in)
{
    memset(is_in, complement, BYTES);
    for (int i = 0; i < set->size; i++)
        is_in[set->byte[i]] = !complement;
}

static bool is_case(const struct set *set)
{
    return set->class == islower || set->class == isupper;
}

/* Classes stand for another in two ways only, and what is left over has one for all. */
static bool read_map(const char *from_text, const char *to_text, bool complement, struct tr *tr)
{
    struct set from, to;
    bool is_from[BYTES];
    if (!read_set(from_text, &from) || !read_set(to_text, &to))
        return false;
    bool has_classes = strstr(from_text, "[:") || strstr(to_text, "[:");
    if (complement) {
        members(&from, true, is_from);
        for (int byte = 0; byte < BYTES; byte++)
            if (is_from[byte])
                tr->to[byte] = to.byte[0];
        return to.size == 1;
    }
    if (has_classes && !(is_case(&from) && is_case(&to) && from.class != to.class) && to.size != 1)
        return false;
    for (int i = 0; i < from.size; i++)
        tr->to[from.byte[i]] = to.byte[i < to.size ? i : to.size - 1];
    return true;
}

/* -d, -c and -s, and one set or two. */
static bool read_request(struct request *request, struct tr *tr)
{
    struct set set;
    if (!options(request, "dcs"))
        return false;
    bool complement = has(request, 'c'), deletes = has(request, 'd'), squeezes = has(request, 's');
    bool has_map = !deletes && left(request) == 2;
    if ((deletes && squeezes) || left(request) != (has_map ? 2 : 1) || (!has_map && !deletes && !squeezes))
        return false;
    *tr = (struct tr){.to = {0}};
    for (int byte = 0; byte < BYTES; byte++)
        tr->to[byte] = byte;
    const char *first = operand(request), *last = request->argv[request->argc - 1];
    request->argc = request->first;
    if (has_map && !read_map(first, last, complement, tr))
        return false;
    if (!read_set(last, &set))
        return false;
    if (deletes || squeezes)
        members(&set, complement && !has_map, deletes ? tr->deletes : tr->squeezes);
    return true;
}

bool act_tr(struct request *request)
{
    char *out = made;
    struct input input;
    struct tr tr;
    size_t size = 0;
    int words = request->argc;
    bool is_read = locale_is_plain(request->envp) && read_request(request, &tr) &&
                   take_input(request, &input);
    request->argc = words;
    if (!is_read)
        return false;
    for (size_t i = 0; i < input.size; i++) {
        unsigned char byte = input.bytes[i], to = tr.to[byte];
        if (!tr.deletes[byte] && !(tr.squeezes[to] && size && (unsigned char)out[size - 1] == to))
            out[size++] = to;
    }
    return say_for(&input, out, size);
}
