#include <stdlib.h>
#include <string.h>

#include "bash.h"
#include "detour.h"
#include "hide.h"
#include "led.h"
#include "tools.h"

/* bash's table of builtins while another, without tools, stands in its place. */
static struct {
    struct builtin *table;
    int count, depth;
} shown;

bool tools_are_hidden(void)
{
    return shown.depth > 0;
}

static void hide(void)
{
    if (shown.depth++ > 0)
        return;
    shown.table = shell_builtins;
    shown.count = num_shell_builtins;
    shell_builtins = xmalloc((shown.count + 1) * sizeof *shell_builtins);
    num_shell_builtins = 0;
    for (int i = 0; i < shown.count; i++)
        if (!is_tool(shown.table[i].function))
            shell_builtins[num_shell_builtins++] = shown.table[i];
    memset(&shell_builtins[num_shell_builtins], 0, sizeof *shell_builtins);
}

static bool is_there(const struct builtin *table, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return true;
    return false;
}

static int by_name(const void *one, const void *other)
{
    return strcmp(((const struct builtin *)one)->name, ((const struct builtin *)other)->name);
}

/* Puts the tools back, among what enable may have loaded, deleted or switched off meanwhile. */
static void show(void)
{
    if (--shown.depth > 0)
        return;
    int count = num_shell_builtins;
    struct builtin *all = xmalloc((count + shown.count + 1) * sizeof *all);
    memcpy(all, shell_builtins, count * sizeof *all);
    for (int i = 0; i < shown.count; i++)
        if (is_tool(shown.table[i].function) &&
            !is_there(shell_builtins, num_shell_builtins, shown.table[i].name))
            all[count++] = shown.table[i];
    qsort(all, count, sizeof *all, by_name);
    memset(&all[count], 0, sizeof *all);
    xfree(shell_builtins);
    if (shown.table != static_shell_builtins)
        xfree(shown.table);
    shell_builtins = all;
    num_shell_builtins = count;
}

static int hidden(sh_builtin_func_t *builtin, WORD_LIST *words)
{
    hide();
    int status = builtin(words);
    show();
    return status;
}

static sh_builtin_func_t *bash_builtin, *bash_compgen, *bash_enable, *bash_hash, *bash_help;

static int our_compgen(WORD_LIST *words) { return hidden(bash_compgen, words); }
static int our_enable(WORD_LIST *words) { return hidden(bash_enable, words); }
static int our_hash(WORD_LIST *words) { return hidden(bash_hash, words); }
static int our_help(WORD_LIST *words) { return hidden(bash_help, words); }

/* builtin runs what it is given, which may be anything: only a tool's name is not to be found. */
static int our_builtin(WORD_LIST *words)
{
    WORD_LIST *word = words;
    if (word && strcmp(word->word->word, "--") == 0)
        word = word->next;
    return word && tool_of_word(word->word->word) < TOOLS_KNOWN ? hidden(bash_builtin, words)
                                                  : bash_builtin(words);
}

static bool replace(const char *name, sh_builtin_func_t *by, sh_builtin_func_t **was)
{
    for (int i = 0; i < num_shell_builtins; i++)
        if (strcmp(shell_builtins[i].name, name) == 0) {
            *was = shell_builtins[i].function;
            shell_builtins[i].function = by;
            return true;
        }
    return false;
}

/* type and command -v both ask describe_command. bash compares the address of command's builtin,
   so that one must stay, and describe_command itself is led here. */
static struct detour describing;

static int our_describe_command(char *name, int flags)
{
    has_come(DESCRIBING, name);
    lead_back(&describing);
    hide();
    int found = describe_command(name, flags);
    show();
    lead_again(&describing);
    return found;
}

bool hide_tools(void)
{
    return lead(&describing, describe_command, our_describe_command) &&
           replace("compgen", our_compgen, &bash_compgen) &&
           replace("enable", our_enable, &bash_enable) &&
           replace("builtin", our_builtin, &bash_builtin) &&
           replace("hash", our_hash, &bash_hash) && replace("help", our_help, &bash_help);
}

void add_builtins(const struct builtin *more, int count)
{
    struct builtin *all = xmalloc((num_shell_builtins + count + 1) * sizeof *all);
    memcpy(all, shell_builtins, num_shell_builtins * sizeof *all);
    memcpy(all + num_shell_builtins, more, count * sizeof *all);
    count += num_shell_builtins;
    qsort(all, count, sizeof *all, by_name);
    memset(&all[count], 0, sizeof *all);
    if (shell_builtins != static_shell_builtins)
        xfree(shell_builtins);
    shell_builtins = all;
    num_shell_builtins = count;
}
