/* cp: small files, as they are. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "path.h"
#include "plain.h"
#include "request.h"

/* What takes longer than a process is the program's: meanwhile the shell hears of no signal. */
enum { LARGEST = 256 << 10, MOST = 64 };

/* Of one with holes, the copy has holes; what its mode says of users is not copied by rules of cp's own. */
static bool is_plain_file(const struct stat *about)
{
    return S_ISREG(about->st_mode) && about->st_size <= LARGEST &&
           !(about->st_mode & (S_ISUID | S_ISGID | S_ISVTX)) &&
           about->st_blocks * 512 >= about->st_size;
}

/* Opening a FIFO would let a writer go on that cp itself is to let go on. */
static int open_original(const char *from, struct stat *about)
{
    bool is = stat(from, about) == 0 && is_plain_file(about);
    int file = is ? open_for_all(from, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0) : -1;
    if (file >= 0 && (fstat(file, about) != 0 || !is_plain_file(about) || is_of_processes(file))) {
        close(file);
        return -1;
    }
    return file;
}

/* Opened as cp does: a new file has the other's mode, less the umask. */
static int open_copy(const char *to, const struct stat *of)
{
    struct stat old;
    if (lstat(to, &old) != 0)
        return errno == ENOENT ? open_for_all(to, O_WRONLY | O_CREAT | O_EXCL, of->st_mode & 0777) : -1;
    bool is_other = S_ISREG(old.st_mode) && (old.st_dev != of->st_dev || old.st_ino != of->st_ino) &&
                    is_for_all(to, true);
    return is_other ? open_for_all(to, O_WRONLY | O_TRUNC, 0) : -1;
}

static bool copy_content(int from, int to)
{
    char bytes[16 << 10];
    ssize_t got;
    while ((got = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, got) != got)
            return false;
    return got == 0;
}

static bool copy(const char *from, const char *to)
{
    struct stat about;
    int in = open_original(from, &about);
    int out = in >= 0 ? open_copy(to, &about) : -1;
    bool is_done = out >= 0 && copy_content(in, out);
    if (in >= 0)
        close(in);
    return (out < 0 || close(out) == 0) && is_done;
}

static bool copy_into(const char *from, const char *directory)
{
    char to[PATH_MAX];
    const char *name = last_component(from);
    size_t size = *name ? without_slashes(name) : 0, directory_size = strlen(directory);
    if (size == 0 || name[size] || directory_size + 1 + size >= sizeof to)
        return false;
    sprintf(to, "%s%s%s", directory, directory[directory_size - 1] == '/' ? "" : "/", name);
    return copy(from, to);
}

bool act_cp(struct request *request)
{
    struct stat about;
    /* What is written beyond a limit would end the shell. */
    if (!options(request, "") || left(request) < 2 || left(request) > MOST || size_is_limited())
        return false;
    const char *to = request->argv[request->argc - 1];
    bool is_directory = *to && stat(to, &about) == 0 && S_ISDIR(about.st_mode);
    if (!is_directory)
        return left(request) == 2 && copy(operand(request), to);
    /* cp does not write twice to what it has made. */
    if (two_have_one_name(request->argv + request->first, left(request) - 1))
        return false;
    for (; left(request) > 1; done(request))
        if (!copy_into(operand(request), to))
            return false;
    return true;
}
