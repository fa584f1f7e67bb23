#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "plain.h"
#include "request.h"

/* Long names are few: an abbreviation, or any other, is left to the program. */
static char short_for(const char *word)
{
    static const struct { const char *name; char letter; } LONG[] = {
        {"--parents", 'p'}, {"--force", 'f'}, {"--symbolic", 's'},
    };
    for (size_t i = 0; i < sizeof LONG / sizeof *LONG; i++)
        if (strcmp(word, LONG[i].name) == 0)
            return LONG[i].letter;
    return 0;
}

static bool take(struct request *request, char letter, const char *allowed)
{
    if (!letter || !strchr(allowed, letter))
        return false;
    size_t given = strlen(request->options);
    if (has(request, letter))
        return true;
    if (given + 1 == sizeof request->options)
        return false;
    request->options[given] = letter;
    return true;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1];
}

bool options(struct request *request, const char *allowed)
{
    int at = 1;
    for (; at < request->argc && is_option(request->argv[at]); at++) {
        const char *word = request->argv[at];
        if (strcmp(word, "--") == 0) {
            request->first = at + 1;
            return true;
        }
        if (word[1] == '-') {
            if (!take(request, short_for(word), allowed))
                return false;
            continue;
        }
        for (const char *letter = word + 1; *letter; letter++)
            if (!take(request, *letter, allowed))
                return false;
    }
    request->first = at;
    /* The C library's getopt finds options behind operands, too. */
    for (; at < request->argc; at++)
        if (is_option(request->argv[at]))
            return false;
    return true;
}

bool has(const struct request *request, char option)
{
    return strchr(request->options, option) != NULL;
}

int left(const struct request *request)
{
    return request->argc - request->first;
}

char *operand(const struct request *request)
{
    return request->argv[request->first];
}

void done(struct request *request)
{
    char **at = request->argv + request->first;
    memmove(at, at + 1, (request->argc - request->first) * sizeof *at);
    request->argc--;
}

static struct capture *capturing;

void capture(struct capture *into)
{
    capturing = into;
}

bool is_capturing(void)
{
    return capturing != NULL;
}

bool size_is_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

/* A pipe or a terminal may keep a writer waiting, which a shell with traps must not be. */
bool can_say(size_t size)
{
    struct stat about;
    if (capturing)
        return size <= sizeof capturing->bytes - capturing->size;
    if (fstat(1, &about) != 0)
        return false;
    if (S_ISREG(about.st_mode))
        return !size_is_limited() && !is_of_processes(1);
    struct pollfd out = {.fd = 1, .events = POLLOUT};
    return size <= 4096 && poll(&out, 1, 0) == 1 && out.revents == POLLOUT;
}

/* A closed pipe's signal is for the program, which is asked then; the shell is not to get it. */
static ssize_t write_without_signal(const char *bytes, size_t size)
{
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, &pipe, &before);
    ssize_t written = write(1, bytes, size);
    int why = errno;
    if (written < 0 && why == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe, NULL, &(struct timespec){0});
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return written;
}

bool say(const char *bytes, size_t size)
{
    if (!can_say(size))
        return false;
    if (capturing) {
        memcpy(capturing->bytes + capturing->size, bytes, size);
        capturing->size += size;
        return true;
    }
    ssize_t written = write_without_signal(bytes, size);
    if (written > 0 && (size_t)written < size) {
        /* A disk is full: taken back, so that the program can write all, and complain. */
        struct stat about;
        if (fstat(1, &about) == 0 && S_ISREG(about.st_mode) &&
            ftruncate(1, about.st_size - written) == 0)
            lseek(1, -written, SEEK_CUR);
        return false;
    }
    return written >= 0 && (size_t)written == size;
}
