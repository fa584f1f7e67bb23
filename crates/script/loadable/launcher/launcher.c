/* Programs that start shells, and have no other use for this library: make, env, xargs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../known.h"
#include "../plain.h"
#include "../reach.h"

#define FOR_PROGRAM __attribute__((visibility("default")))

typedef int spawn(pid_t *, const char *, const posix_spawn_file_actions_t *,
                  const posix_spawnattr_t *, char *const[], char *const[]);

/* The C library's own. */
static struct {
    int (*execvpe)(const char *, char *const[], char *const[]);
    spawn *posix_spawn, *posix_spawnp;
} libc;

__attribute__((constructor)) static void load(void)
{
    *(void **)&libc.execvpe = dlsym(RTLD_NEXT, "execvpe");
    *(void **)&libc.posix_spawn = dlsym(RTLD_NEXT, "posix_spawn");
    *(void **)&libc.posix_spawnp = dlsym(RTLD_NEXT, "posix_spawnp");
    remember_limits();
    if (was_reached() && !stack_is_small())
        read_known((void *)load);
}

FOR_PROGRAM int execve(const char *path, char *const argv[], char *const envp[])
{
    return execve_reaching(path, argv, envp);
}

FOR_PROGRAM int execv(const char *path, char *const argv[])
{
    return execve_reaching(path, argv, environ);
}

/* The file that execvp would execute; the name itself where that is for it to find out. */
static const char *found(const char *name, char *path, size_t size)
{
    const char *search = getenv("PATH");
    if (strchr(name, '/') || !*name || !search)
        return name;
    for (const char *from = search;; from++) {
        size_t length = strcspn(from, ":"), name_size = strlen(name);
        if (length == 0 || length + name_size + 2 > size)
            return name;
        memcpy(path, from, length);
        path[length] = '/';
        strcpy(path + length + 1, name);
        if (access(path, X_OK) == 0)
            return path;
        from += length;
        if (!*from)
            return name;
    }
}

/* execvp tries further and further, and has a shell run what is no program: that is its own, and
   so is all that is not found at once. */
static int search(const char *name, char *const argv[], char *const envp[])
{
    char path[4096], variable[REACH_VARIABLE], *list[reach_size(envp)];
    char *const *with = reach(found(name, path, sizeof path), envp, list, variable);
    int failed = libc.execvpe(name, argv, with);
    return with != envp && errno == E2BIG ? libc.execvpe(name, argv, envp) : failed;
}

FOR_PROGRAM int execvp(const char *name, char *const argv[])
{
    return search(name, argv, environ);
}

FOR_PROGRAM int execvpe(const char *name, char *const argv[], char *const envp[])
{
    return search(name, argv, envp);
}

FOR_PROGRAM spawn posix_spawn, posix_spawnp;

/* The child may be told to be in another directory first: a relative path says nothing here. */
static int started(spawn *own, const char *file, pid_t *child, const char *name,
                   const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                   char *const argv[], char *const envp[])
{
    char variable[REACH_VARIABLE], *list[reach_size(envp)];
    char *const *with = file[0] == '/' ? reach(file, envp, list, variable) : envp;
    int failed = own(child, name, actions, how, argv, with);
    return with != envp && failed == E2BIG ? own(child, name, actions, how, argv, envp) : failed;
}

int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *how, char *const argv[], char *const envp[])
{
    return started(libc.posix_spawn, path, child, path, actions, how, argv, envp);
}

int posix_spawnp(pid_t *child, const char *name, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *how, char *const argv[], char *const envp[])
{
    char path[4096];
    const char *file = found(name, path, sizeof path);
    return started(libc.posix_spawnp, file, child, name, actions, how, argv, envp);
}
