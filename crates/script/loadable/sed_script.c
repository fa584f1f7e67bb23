/* sed's language, as far as all of its words mean the same in POSIX and to GNU sed. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sed.h"

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* Keeps a piece of text for as long as the script. NULL: there is no room. */
static char *keep(struct script *script, size_t size)
{
    if (size >= sizeof script->text - script->used)
        return NULL;
    char *at = script->text + script->used;
    script->used += size + 1;
    return at;
}

/* A delimiter that has no other meaning anywhere. */
static bool is_delimiter(char c)
{
    return c && strchr("/,%:;#@!~_=|\"'", c);
}

/* Takes a regular expression up to its delimiter: an escaped one is the delimiter itself. */
static const char *take_pattern(struct script *script, const char *at, char delimiter, int *pattern)
{
    char *text = keep(script, strlen(at)), *to = text;
    if (!text || script->pattern_count == MOST_PATTERNS)
        return NULL;
    for (bool in_bracket = false; *at != delimiter || in_bracket; at++) {
        if (!*at || *at == '\n' || (in_bracket && *at == delimiter))
            return NULL;
        if (!in_bracket && *at == '\\') {
            /* An escaped "|" is an operator of GNU's, too. */
            if (at[1] == delimiter && delimiter == '|')
                return NULL;
            if (at[1] != delimiter)
                *to++ = *at;
            if (!*++at)
                return NULL;
        } else if (!in_bracket && *at == '[') {
            in_bracket = true;
            *to++ = *at;
            if (at[1] == '^')
                *to++ = *++at;
            if (at[1] == ']')
                *to++ = *++at;
            continue;
        } else if (in_bracket && *at == '[' && strchr(":.=", at[1])) {
            return NULL;
        } else if (*at == ']')
            in_bracket = false;
        *to++ = *at;
    }
    *to = '\0';
    if (!compile_pattern(text, &script->patterns[script->pattern_count]))
        return NULL;
    *pattern = script->pattern_count++;
    return at + 1;
}

static const char *take_replacement(struct script *script, const char *at, char delimiter,
                                    struct command *command)
{
    char *to = keep(script, strlen(at));
    size_t groups = script->patterns[command->pattern].re_nsub;
    command->replacement = to;
    if (!to)
        return NULL;
    for (; *at != delimiter; at++) {
        /* What stands for something else here is no text. */
        if (*at <= STANDS_FOR_NEWLINE)
            return NULL;
        if (*at == '&') {
            *to++ = STANDS_FOR_GROUP;
            continue;
        }
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        at++;
        if (isdigit((unsigned char)*at)) {
            if ((size_t)(*at - '0') > groups)
                return NULL;
            *to++ = STANDS_FOR_GROUP + *at - '0';
        } else if (*at == '\n')
            *to++ = STANDS_FOR_NEWLINE;
        else if (*at && (*at == delimiter || strchr("&\\/$\"`'", *at)))
            *to++ = *at;
        else
            return NULL;
    }
    *to = '\0';
    return at + 1;
}

static const char *take_flags(const char *at, struct command *command)
{
    for (;; at++)
        if (*at == 'g' && !command->global)
            command->global = true;
        else if (*at == 'p' && !command->print)
            command->print = true;
        else if (*at >= '1' && *at <= '9' && !command->count) {
            char *end;
            command->count = strtoul(at, &end, 10);
            at = end - 1;
        } else
            return at;
}

static const char *take_substitution(struct script *script, const char *at, struct command *command)
{
    char delimiter = *at;
    if (!is_delimiter(delimiter))
        return NULL;
    at = take_pattern(script, at + 1, delimiter, &command->pattern);
    if (at)
        at = take_replacement(script, at, delimiter, command);
    return at ? take_flags(at, command) : NULL;
}

/* y: without escapes, and with no character twice. */
static const char *take_map(const char *at, struct command *command)
{
    char delimiter = *at;
    const char *from = at + 1, *middle = is_delimiter(delimiter) ? strchr(from, delimiter) : NULL;
    const char *to = middle ? middle + 1 : NULL, *end = to ? strchr(to, delimiter) : NULL;
    if (!end || middle - from != end - to)
        return NULL;
    for (int c = 0; c < 256; c++)
        command->map[c] = c;
    for (size_t i = 0; from + i < middle; i++) {
        unsigned char c = from[i];
        if (c == '\\' || to[i] == '\\' || c == '\n' || to[i] == '\n' ||
            memchr(from, c, i))
            return NULL;
        command->map[c] = to[i];
    }
    return end + 1;
}

static const char *take_address(struct script *script, const char *at, struct address *address)
{
    if (isdigit((unsigned char)*at)) {
        char *end;
        address->kind = NUMBER;
        address->number = strtoul(at, &end, 10);
        return address->number > 0 && end - at < 10 && *end != '~' ? end : NULL;
    }
    if (*at == '$') {
        address->kind = LAST;
        return at + 1;
    }
    address->kind = PATTERN;
    if (*at == '\\' && !is_delimiter(*++at))
        return NULL;
    at = take_pattern(script, at + 1, *at, &address->pattern);
    return at && *at != 'I' && *at != 'M' ? at : NULL;
}

static bool begins_address(char c)
{
    return isdigit((unsigned char)c) || c == '$' || c == '/' || c == '\\';
}

static const char *take_addresses(struct script *script, const char *at, struct command *command)
{
    if (!begins_address(*at))
        return at;
    at = take_address(script, at, &command->from);
    if (!at)
        return NULL;
    at = skip_blanks(at);
    if (*at != ',')
        return at;
    at = skip_blanks(at + 1);
    return begins_address(*at) ? take_address(script, at, &command->to) : NULL;
}

static const char *take_command(struct script *script, const char *at, int *open)
{
    if (script->count == MOST_COMMANDS)
        return NULL;
    struct command *command = &script->commands[script->count++];
    *command = (struct command){.name = 0};
    at = take_addresses(script, at, command);
    if (!at)
        return NULL;
    at = skip_blanks(at);
    if (*at == '!') {
        command->negated = true;
        at = skip_blanks(at + 1);
    }
    command->name = *at++;
    switch (command->name) {
    case '{':
        command->end = *open;
        *open = script->count - 1;
        return at;
    case '}':
        if (*open < 0 || command->from.kind != EVERY || command->negated)
            return NULL;
        int block = *open;
        *open = script->commands[block].end;
        script->commands[block].end = script->count - 1;
        return at;
    case 'p':
    case 'd':
    case 'q':
        /* One line has one end. */
        return command->name == 'q' && command->to.kind != EVERY ? NULL : at;
    case 's': return take_substitution(script, at, command);
    case 'y': return take_map(at, command);
    default: return NULL;
    }
}

bool read_script(struct script *script, const char *text)
{
    int open = -1;
    const char *at = text;
    script->count = script->pattern_count = 0;
    script->used = 0;
    while (at && *(at += strspn(at, " \t\n;"))) {
        at = take_command(script, at, &open);
        if (!at)
            return false;
        at = skip_blanks(at);
        bool is_block = script->commands[script->count - 1].name == '{';
        if (!is_block && *at && !strchr(";\n}", *at))
            return false;
    }
    return open < 0 && script->count > 0;
}

void free_script(struct script *script)
{
    for (int i = 0; i < script->pattern_count; i++)
        regfree(&script->patterns[i]);
}
