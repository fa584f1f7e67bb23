#include <stdlib.h>
#include <string.h>

#include "shell.h"
#include "words.h"

/* Words that are part of a shell's grammar where a command begins. */
static bool is_grammar(const char *at, size_t length)
{
    static const char *const WORDS[] = {"case",   "coproc", "do",     "done",     "elif",  "else",
                                        "esac",   "fi",     "for",    "function", "if",    "in",
                                        "select", "then",   "time",   "until",    "while"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (strlen(WORDS[i]) == length && strncmp(at, WORDS[i], length) == 0)
            return true;
    return false;
}

/* Behind blanks, lines that go on, and, where a line may end, newlines. */
static const char *skip_space(const char *at, bool lines)
{
    for (;;)
        if (at[0] == '\\' && at[1] == '\n')
            at += 2;
        else if (*at == ' ' || *at == '\t' || (lines && *at == '\n'))
            at++;
        else
            return at;
}

/* Behind "2>/dev/null", "> word" or "2>&1"; where there is none, at its beginning. NULL: another. */
static const char *skip_redirection(const char *at)
{
    const char *operator = at + (*at >= '0' && *at <= '9');
    if (*operator != '>')
        return at;
    operator++;
    if (*operator == '&')
        return operator[1] >= '0' && operator[1] <= '9' ? operator + 2 : NULL;
    const char *word = skip_space(operator + (*operator == '>'), false), *end = skip_word(word);
    return end == word ? NULL : end;
}

/* Behind a command. NULL: it is not understood, or is none. */
static const char *skip_command(const char *at)
{
    int words = 0;
    at = skip_space(at, true);
    for (const char *end; *at && *at != '|' && *at != '\n'; at = skip_space(end, false)) {
        end = skip_redirection(at);
        if (end != at) {
            if (!end)
                return NULL;
            continue;
        }
        end = skip_word(at);
        if (!end || end == at || (words++ == 0 && is_grammar(at, end - at)))
            return NULL;
        /* "a2>b" is no redirection of a descriptor. */
        if (*end && !strchr(" \t\n|\\", *end))
            return NULL;
    }
    return words ? at : NULL;
}

/* Whether what stands behind "||" is commands that bash would take without a word. */
static bool is_list(const char *at)
{
    while ((at = skip_command(at)) && *at == '|')
        at += at[1] == '|' ? 2 : 1;
    return at && !*skip_space(at, true);
}

/* The end of the first pipeline; NULL: that is all, or not understood. */
static const char *first_or(const char *at)
{
    for (;;) {
        at += strspn(at, " \t");
        if (at[0] == '|' && at[1] == '|')
            return at;
        const char *end = *at == '|' ? at + 1 : skip_word(at);
        if (!*at || !end || end == at)
            return NULL;
        at = end;
    }
}

bool take_first_of_list(const char *text, char *first)
{
    const char *end = first_or(text);
    if (!end || (size_t)(end - text) >= LONGEST_TEXT || !is_list(end + 2))
        return false;
    memcpy(first, text, end - text);
    first[end - text] = '\0';
    return true;
}
