/* sed: scripts of s, y, p, d, q and blocks, on ASCII. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "sed.h"

enum { MOST_OUTPUT = 4 * MOST_INPUT, MOST_LINE = MOST_INPUT };

struct line {
    char bytes[MOST_LINE];
    size_t size;
    bool ends; /* by a newline */
};

/* All that a run needs. */
struct run {
    struct script script;
    struct line line, changed;
    char out[MOST_OUTPUT];
    size_t size, number;
    bool is_last, is_missing; /* a newline, before what is printed next */
};

static bool add(char *to, size_t *size, size_t room, const char *bytes, size_t count)
{
    if (count > room - *size)
        return false;
    memcpy(to + *size, bytes, count);
    *size += count;
    return true;
}

static bool print(struct run *run)
{
    bool is_done = (!run->is_missing || add(run->out, &run->size, sizeof run->out, "\n", 1)) &&
                   add(run->out, &run->size, sizeof run->out, run->line.bytes, run->line.size) &&
                   (!run->line.ends || add(run->out, &run->size, sizeof run->out, "\n", 1));
    run->is_missing = !run->line.ends;
    return is_done;
}

static bool is_at(struct run *run, const struct address *address)
{
    regmatch_t groups[GROUPS];
    switch (address->kind) {
    case EVERY: return true;
    case NUMBER: return run->number == address->number;
    case LAST: return run->is_last;
    case PATTERN:
        return match(&run->script.patterns[address->pattern], run->line.bytes, run->line.size, 0,
                     groups);
    }
    return false;
}

/* As sed's match_address_p. */
static bool is_addressed(struct run *run, struct command *command)
{
    const struct address *from = &command->from, *to = &command->to;
    if (to->kind == EVERY)
        return is_at(run, from);
    if (command->range != ACTIVE) {
        if (from->kind == NUMBER ? command->range == CLOSED || run->number < from->number
                                 : !is_at(run, from))
            return false;
        command->range = ACTIVE;
        if (to->kind == PATTERN)
            return true;
        if (to->kind == NUMBER) {
            if (run->number >= to->number)
                command->range = CLOSED;
            return run->number <= to->number || is_at(run, from);
        }
    }
    bool is_end = to->kind == NUMBER ? run->number >= to->number : is_at(run, to);
    if (is_end)
        command->range = CLOSED;
    return to->kind != NUMBER || run->number <= to->number;
}

static bool replace(struct line *to, const char *replacement, const char *text,
                    const regmatch_t *groups)
{
    for (; *replacement; replacement++) {
        bool is_added;
        if (*replacement == STANDS_FOR_NEWLINE)
            is_added = add(to->bytes, &to->size, sizeof to->bytes, "\n", 1);
        else if (*replacement < STANDS_FOR_NEWLINE) {
            const regmatch_t *group = &groups[*replacement - STANDS_FOR_GROUP];
            is_added = group->rm_so < 0 || add(to->bytes, &to->size, sizeof to->bytes,
                                               text + group->rm_so, group->rm_eo - group->rm_so);
        } else
            is_added = add(to->bytes, &to->size, sizeof to->bytes, replacement, 1);
        if (!is_added)
            return false;
    }
    return true;
}

/* As sed's do_subst. False: there is no room. */
static bool substitute(struct run *run, const struct command *command, bool *replaced)
{
    const regex_t *pattern = &run->script.patterns[command->pattern];
    const struct line *line = &run->line;
    struct line *to = &run->changed;
    regmatch_t groups[GROUPS];
    size_t start = 0, last_end = 0, count = 0;
    bool again = true;
    *replaced = false;
    to->size = 0;
    to->ends = line->ends;
    while (again && start <= line->size && match(pattern, line->bytes, line->size, start, groups)) {
        size_t offset = groups[0].rm_so, matched = groups[0].rm_eo - offset, end = groups[0].rm_eo;
        if (!add(to->bytes, &to->size, sizeof to->bytes, line->bytes + start, offset - start))
            return false;
        start = offset;
        if ((matched > 0 || count == 0 || offset > last_end) &&
            ++count >= (command->count ? command->count : 1)) {
            *replaced = true;
            if (!replace(to, command->replacement, line->bytes, groups))
                return false;
            again = command->global;
        } else {
            if (matched == 0) {
                if (start >= line->size)
                    break;
                matched = 1;
            }
            if (!add(to->bytes, &to->size, sizeof to->bytes, line->bytes + offset, matched))
                return false;
        }
        start = offset + matched;
        last_end = end;
    }
    if (start < line->size &&
        !add(to->bytes, &to->size, sizeof to->bytes, line->bytes + start, line->size - start))
        return false;
    if (*replaced) {
        memcpy(run->line.bytes, to->bytes, to->size);
        run->line.size = to->size;
    }
    return true;
}

enum outcome { NEXT, DELETED, QUIT, NO_ROOM };

static enum outcome run_commands(struct run *run)
{
    for (int i = 0; i < run->script.count; i++) {
        struct command *command = &run->script.commands[i];
        bool replaced = false;
        if (is_addressed(run, command) == command->negated) {
            if (command->name == '{')
                i = command->end;
            continue;
        }
        switch (command->name) {
        case 'p':
            if (!print(run))
                return NO_ROOM;
            break;
        case 'd': return DELETED;
        case 'q': return QUIT;
        case 'y':
            for (size_t at = 0; at < run->line.size; at++)
                run->line.bytes[at] = command->map[(unsigned char)run->line.bytes[at]];
            break;
        case 's':
            if (!substitute(run, command, &replaced) ||
                (replaced && command->print && !print(run)))
                return NO_ROOM;
        }
    }
    return NEXT;
}

static bool run_script(struct run *run, const struct input *input)
{
    const char *at = input->bytes, *end = at + input->size;
    while (at < end) {
        const char *newline = memchr(at, '\n', end - at);
        run->line.size = (newline ? newline : end) - at;
        run->line.ends = newline != NULL;
        memcpy(run->line.bytes, at, run->line.size);
        at += run->line.size + run->line.ends;
        run->number++;
        run->is_last = at == end;
        enum outcome outcome = run_commands(run);
        if (outcome == NO_ROOM || (outcome != DELETED && !run->script.silent && !print(run)))
            return false;
        /* Who quits ends the last line, too: GNU sed's output_missing_newline. */
        if (outcome == QUIT)
            return !run->is_missing || add(run->out, &run->size, sizeof run->out, "\n", 1);
    }
    return true;
}

/* -n, -e SCRIPT, or the first operand as the script. */
static bool take_options(struct request *request, char *text, size_t room, bool *silent)
{
    int at = 1;
    size_t size = 0;
    for (; at < request->argc && request->argv[at][0] == '-' && request->argv[at][1]; at++) {
        const char *word = request->argv[at];
        if (strcmp(word, "-n") == 0) {
            *silent = true;
            continue;
        }
        bool is_expression = strcmp(word, "-e") == 0 || strcmp(word, "-ne") == 0;
        if (!is_expression || ++at == request->argc)
            return false;
        *silent |= word[1] == 'n';
        size_t length = strlen(request->argv[at]);
        if (length + 2 > room - size)
            return false;
        size += sprintf(text + size, "%s\n", request->argv[at]);
    }
    if (size == 0) {
        if (at == request->argc || strlen(request->argv[at]) >= room)
            return false;
        strcpy(text, request->argv[at++]);
    }
    request->first = at;
    for (; at < request->argc; at++)
        if (request->argv[at][0] == '-' && request->argv[at][1])
            return false;
    return true;
}

/* A line that files would share: the one before does not end. */
static bool files_end(const struct request *request, const struct input *input)
{
    return left(request) < 2 || (input->size && input->bytes[input->size - 1] == '\n' &&
                                 input->joints_end);
}

/* q leaves the rest of standard input to whoever reads next. */
static bool may_quit(const struct script *script, const struct input *input)
{
    for (int i = 0; i < script->count; i++)
        if (script->commands[i].name == 'q' && (input->is_file || input->is_pipe))
            return false;
    return true;
}

bool act_sed(struct request *request)
{
    char text[MOST_TEXT];
    struct input input;
    struct run *run = calloc(1, sizeof *run);
    bool is_done = run && take_options(request, text, sizeof text, &run->script.silent) &&
                   is_ascii(text, strlen(text)) && locale_is_plain(request->envp) &&
                   read_script(&run->script, text);
    if (is_done && (is_done = take_input(request, &input))) {
        is_done = is_ascii(input.bytes, input.size) && files_end(request, &input) &&
                  may_quit(&run->script, &input) && run_script(run, &input);
        if (!is_done)
            give_back(&input);
        else
            is_done = say_for(&input, run->out, run->size);
    }
    if (run)
        free_script(&run->script);
    free(run);
    return is_done;
}
