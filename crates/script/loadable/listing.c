/* ls: names, a line each, as where nobody looks on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pattern.h"
#include "plain.h"
#include "request.h"

enum { MOST_BYTES = 16384, MOST_NAMES = 1024, MOST_OPERANDS = 64 };

/* Names, to be sorted and written. */
struct names {
    char bytes[MOST_BYTES];
    size_t size;
    const char *each[MOST_NAMES];
    int count;
};

struct listing {
    char bytes[MOST_BYTES];
    size_t size;
};

static bool add_name(struct names *names, const char *name)
{
    size_t size = strlen(name) + 1;
    if (size > sizeof names->bytes - names->size || names->count == MOST_NAMES)
        return false;
    names->each[names->count++] = memcpy(names->bytes + names->size, name, size);
    names->size += size;
    return true;
}

static bool put(struct listing *listing, const char *text, const char *end)
{
    size_t size = strlen(text), more = strlen(end);
    if (size + more > sizeof listing->bytes - listing->size)
        return false;
    memcpy(listing->bytes + listing->size, text, size);
    memcpy(listing->bytes + listing->size + size, end, more);
    listing->size += size + more;
    return true;
}

static int by_bytes(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static bool put_sorted(struct listing *listing, struct names *names)
{
    qsort(names->each, names->count, sizeof *names->each, by_bytes);
    for (int i = 0; i < names->count; i++)
        if (!put(listing, names->each[i], "\n"))
            return false;
    return true;
}

static bool is_listed(const char *name, const struct request *request)
{
    bool is_dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    return name[0] != '.' || has(request, 'a') || (has(request, 'A') && !is_dots);
}

static bool put_directory(struct listing *listing, const char *path, const struct request *request)
{
    static struct names names;
    names.size = names.count = 0;
    int file = is_for_all(path, true) ? open_for_all(path, O_RDONLY | O_DIRECTORY, 0) : -1;
    DIR *directory = file >= 0 ? fdopendir(file) : NULL;
    if (!directory) {
        if (file >= 0)
            close(file);
        return false;
    }
    bool fits = true;
    struct dirent *entry;
    errno = 0;
    while (fits && (entry = readdir(directory)))
        fits = !is_listed(entry->d_name, request) || add_name(&names, entry->d_name);
    fits = fits && errno == 0;
    closedir(directory);
    return fits && put_sorted(listing, &names);
}

/* Sorts what is asked for into files, and directories that are to be listed. */
static bool sort_operands(struct request *request, struct names *files, struct names *directories)
{
    struct stat about;
    for (int at = request->first; at < request->argc; at++) {
        const char *path = request->argv[at];
        bool is_there = *path && is_for_all(path, false) && lstat(path, &about) == 0;
        bool is_link = is_there && S_ISLNK(about.st_mode);
        /* One that leads nowhere is a file. */
        if (!is_there || (is_link && stat(path, &about) != 0 && errno != ENOENT))
            return false;
        bool is_directory = S_ISDIR(about.st_mode) && !has(request, 'd');
        if (!add_name(is_directory ? directories : files, path))
            return false;
    }
    return true;
}

static bool put_all(struct listing *listing, struct request *request)
{
    static struct names files, directories;
    files.size = files.count = directories.size = directories.count = 0;
    if (!sort_operands(request, &files, &directories) || !put_sorted(listing, &files))
        return false;
    qsort(directories.each, directories.count, sizeof *directories.each, by_bytes);
    for (int i = 0; i < directories.count; i++) {
        const char *path = directories.each[i];
        if (listing->size && !put(listing, "", "\n"))
            return false;
        if ((left(request) > 1 && !put(listing, path, ":\n")) ||
            !put_directory(listing, path, request))
            return false;
    }
    return true;
}

/* With QUOTING_STYLE, names are written otherwise. */
static bool has_style(char *const *envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "QUOTING_STYLE=", sizeof "QUOTING_STYLE=" - 1) == 0)
            return true;
    return false;
}

bool act_ls(struct request *request)
{
    static struct listing listing;
    listing.size = 0;
    /* At a terminal, it is columns. */
    if (!options(request, "1adA") || (has(request, 'a') && has(request, 'A')) ||
        left(request) > MOST_OPERANDS || (!is_capturing() && isatty(1)) ||
        has_style(request->envp) || !locale_is_plain(request->envp))
        return false;
    struct stat here;
    bool fits = left(request)      ? put_all(&listing, request)
                : has(request, 'd') ? lstat(".", &here) == 0 && put(&listing, ".", "\n")
                                    : put_directory(&listing, ".", request);
    return fits && say(listing.bytes, listing.size);
}
