/* mv: within a filesystem. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "request.h"
#include "path.h"

#define MOST 64 /* sources, of which no two may have one name */

/* mv asks somebody at a terminal before it replaces what is write-protected. */
static bool may_replace(const char *path, bool force)
{
    return force || !isatty(0) || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static bool is_lone_file(const struct stat *about)
{
    return S_ISREG(about->st_mode) && about->st_nlink == 1;
}

/* Replaces a file by another. All that is not as plain has rules of mv's own. */
static bool replace(const char *from, const char *to, bool force)
{
    struct stat old, new;
    return lstat(from, &new) == 0 && is_lone_file(&new) && lstat(to, &old) == 0 &&
           is_lone_file(&old) && (old.st_dev != new.st_dev || old.st_ino != new.st_ino) &&
           may_replace(to, force) && rename(from, to) == 0;
}

/* mv's own first attempt is this one. */
static bool move(const char *from, const char *to, bool force)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return true;
    return errno == EEXIST && replace(from, to, force);
}

static bool is_dots(const char *name, size_t size)
{
    return (size == 1 && name[0] == '.') || (size == 2 && name[0] == '.' && name[1] == '.');
}

static bool move_into(const char *from, const char *directory, bool force)
{
    char to[PATH_MAX];
    const char *name = last_component(from);
    size_t size = *name ? without_slashes(name) : 0, directory_size = strlen(directory);
    if (size == 0 || is_dots(name, size) || directory_size + 1 + size >= sizeof to)
        return false;
    int end = sprintf(to, "%s%s", directory, directory[directory_size - 1] == '/' ? "" : "/");
    memcpy(to + end, name, size);
    to[end + size] = 0;
    return move(from, to, force);
}

/* What is moved may be the directory itself, or lead to it: of several, each is moved to where the others are. */
static bool is_file(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISREG(about.st_mode);
}

bool act_mv(struct request *request)
{
    struct stat about;
    if (!options(request, "f") || left(request) < 2 || left(request) > MOST)
        return false;
    bool force = has(request, 'f');
    const char *to = request->argv[request->argc - 1];
    bool directory = *to && stat(to, &about) == 0 && S_ISDIR(about.st_mode);
    if (!directory)
        return left(request) == 2 && move(operand(request), to, force);
    bool are_many = left(request) > 2;
    /* mv does not replace what it has moved a moment ago. */
    if (are_many && two_have_one_name(request->argv + request->first, left(request) - 1))
        return false;
    for (; left(request) > 1; done(request))
        if ((are_many && !is_file(operand(request))) || !move_into(operand(request), to, force))
            return false;
    return true;
}
