/* mkdir, rmdir, rm, ln, touch, chmod: entries made, changed and removed one by one. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "path.h"
#include "plain.h"
#include "request.h"

static mode_t current_umask(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return mask;
}

static bool is_directory(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* mkdir enters what it makes, so "a/../b" needs a, even if it is not there yet. */
static bool has_dots(const char *path)
{
    for (const char *at = path; *at; at += strcspn(at, "/")) {
        at += strspn(at, "/");
        size_t size = strcspn(at, "/");
        if ((size == 1 && at[0] == '.') || (size == 2 && at[0] == '.' && at[1] == '.'))
            return true;
    }
    return false;
}

static bool make_parents(char *path)
{
    for (char *at = path + strspn(path, "/"); (at = strchr(at, '/')); at += strspn(at, "/")) {
        *at = 0;
        bool there = mkdir(path, 0777) == 0 || errno == EEXIST;
        *at = '/';
        if (!there)
            return false;
    }
    return true;
}

static bool make_with_parents(char *path)
{
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno == EEXIST)
        return is_directory(path);
    return errno == ENOENT && *path && !has_dots(path) && make_parents(path) &&
           (mkdir(path, 0777) == 0 || (errno == EEXIST && is_directory(path)));
}

bool act_mkdir(struct request *request)
{
    if (!options(request, "p") || left(request) == 0)
        return false;
    bool parents = has(request, 'p');
    /* mkdir may write in the parents that it makes, whatever the umask says. */
    if (parents && (current_umask() & 0300))
        return false;
    for (; left(request); done(request)) {
        char *path = operand(request);
        if (parents ? !make_with_parents(path) : mkdir(path, 0777) != 0)
            return false;
    }
    return true;
}

bool act_rmdir(struct request *request)
{
    if (!options(request, "") || left(request) == 0)
        return false;
    for (; left(request); done(request))
        if (rmdir(operand(request)) != 0)
            return false;
    return true;
}

/* rm asks somebody at a terminal before it removes what is write-protected. */
static bool would_ask(const char *path, const struct stat *about)
{
    return !S_ISLNK(about->st_mode) && isatty(0) &&
           faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0;
}

static bool remove_entry(const char *path, bool force)
{
    struct stat about;
    if (!*path || path[strlen(path) - 1] == '/')
        return false;
    if (lstat(path, &about) != 0)
        return force && errno == ENOENT;
    return !S_ISDIR(about.st_mode) && (force || !would_ask(path, &about)) && unlink(path) == 0;
}

bool act_rm(struct request *request)
{
    if (!options(request, "frR"))
        return false;
    bool force = has(request, 'f');
    if (left(request) == 0)
        return force;
    for (; left(request); done(request))
        if (!remove_entry(operand(request), force))
            return false;
    return true;
}

bool act_ln(struct request *request)
{
    if (!options(request, "sfn") || left(request) != 2)
        return false;
    const char *to = operand(request), *path = request->argv[request->first + 1];
    if (has(request, 's'))
        return symlink(to, path) == 0;
    struct stat about;
    return lstat(to, &about) == 0 && !S_ISDIR(about.st_mode) && link(to, path) == 0;
}

static bool touch(const char *path)
{
    if (strcmp(path, "-") == 0)
        return false;
    int file = open_for_all(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY, 0666);
    if (file < 0)
        return false;
    bool touched = futimens(file, NULL) == 0;
    close(file);
    return touched;
}

bool act_touch(struct request *request)
{
    if (!options(request, "") || left(request) == 0)
        return false;
    for (; left(request); done(request))
        if (!touch(operand(request)))
            return false;
    return true;
}

/* What chmod adds, or -1; SET is what it sets instead. */
static bool understand(const char *mode, mode_t *set, mode_t *add)
{
    *set = *add = 0;
    if (strspn(mode, "01234567") == strlen(mode)) {
        *set = strtoul(mode, NULL, 8);
        return *mode && strlen(mode) <= 4;
    }
    if (strcmp(mode, "+x") == 0)
        *add = 0111 & ~current_umask();
    else if (strcmp(mode, "a+x") == 0)
        *add = 0111;
    else if (strcmp(mode, "u+x") == 0)
        *add = 0100;
    else
        return false;
    return true;
}

bool act_chmod(struct request *request)
{
    mode_t set, add;
    if (!options(request, "") || left(request) < 2)
        return false;
    const char *mode = operand(request);
    if (!understand(mode, &set, &add))
        return false;
    bool sets = strchr("01234567", mode[0]) != NULL;
    for (request->first++; left(request); done(request)) {
        struct stat about;
        const char *path = operand(request);
        /* Directories keep their set-id bits by rules of chmod's own. */
        if (!is_for_all(path, true) || stat(path, &about) != 0 || !S_ISREG(about.st_mode) ||
            chmod(path, sets ? set : ((about.st_mode & 07777) | add)) != 0)
            return false;
    }
    return true;
}
