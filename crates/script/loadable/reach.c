#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "known.h"
#include "plain.h"
#include "reach.h"

static const char PRELOAD[] = "LD_PRELOAD=";

bool was_reached(void)
{
    bool was = false;
    char **to = environ;
    for (char **from = environ; from && *from; from++)
        if (strncmp(*from, PRELOAD, sizeof PRELOAD - 1) == 0)
            was = true;
        else
            *to++ = *from;
    if (to)
        *to = NULL;
    return was;
}

size_t reach_size(char *const *envp)
{
    size_t count = 0;
    while (envp && envp[count])
        count++;
    return count + 2;
}

/* The interpreter that a script names ("#!"), as the kernel reads it, in LINE. */
static const char *interpreter(const char *path, char *line, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t got = file >= 0 ? read(file, line, size - 1) : -1;
    if (file >= 0)
        close(file);
    if (got < 3 || memcmp(line, "#!", 2) != 0)
        return NULL;
    line[got] = '\0';
    char *name = line + 2 + strspn(line + 2, " \t"), *end = name + strcspn(name, " \t\n");
    if (!*end)
        return NULL; /* the kernel does not take a name that it has not seen whole */
    *end = '\0';
    return name[0] == '/' ? name : NULL;
}

static const char *library_of(const char *path)
{
    struct stat file;
    char line[256];
    const char *by;
    if (stat(path, &file) != 0 || !S_ISREG(file.st_mode))
        return NULL;
    enum host host = host_of(&file);
    if (host == HOSTS && !(file.st_mode & (S_ISUID | S_ISGID)) &&
        (by = interpreter(path, line, sizeof line)) && stat(by, &file) == 0)
        host = host_of(&file);
    return host < HOSTS ? library_for(host) : NULL;
}

char *const *reach(const char *path, char *const *envp, char **list, char *variable)
{
    const char *library;
    size_t count = 0;
    /* One that may not have as much memory, or as many files, is not to need more. */
    if (a_limit_is_lower())
        return envp;
    for (; envp && envp[count]; count++)
        if (changes_programs(envp[count]))
            return envp;
    if (!envp || !(library = library_of(path)))
        return envp;
    sprintf(variable, "%s%s", PRELOAD, library);
    memcpy(list, envp, count * sizeof *list);
    list[count] = variable;
    list[count + 1] = NULL;
    return list;
}

int execve_reaching(const char *path, char *const *argv, char *const *envp)
{
    char variable[REACH_VARIABLE], *list[reach_size(envp)];
    char *const *with = path ? reach(path, envp, list, variable) : envp;
    int failed = syscall(SYS_execve, path, argv, with);
    /* There may be no room for one variable more. */
    return with != envp && errno == E2BIG ? (int)syscall(SYS_execve, path, argv, envp) : failed;
}
