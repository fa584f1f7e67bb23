#include <string.h>

#include "bash.h"
#include "led.h"

static char nothings[] = "/";
static bool came[LED];

void has_come(enum led what, const char *name)
{
    if (name == nothings)
        came[what] = true;
}

static sh_builtin_func_t *type_of_bash(void)
{
    for (const struct builtin *one = static_shell_builtins; one->name; one++)
        if (strcmp(one->name, "type") == 0)
            return one->function;
    return NULL;
}

/* "type -t /" says nothing, looks at one file, and gets to both functions as the commands of a script
   do. */
bool calls_are_led(void)
{
    static bool is_asked;
    char option[] = "-t";
    WORD_DESC words[] = {{option, 0}, {nothings, 0}};
    WORD_LIST second = {NULL, &words[1]}, first = {&second, &words[0]};
    sh_builtin_func_t *type = type_of_bash();
    if (!is_asked && type) {
        is_asked = true;
        type(&first);
    }
    return came[FINDING] && came[DESCRIBING];
}
