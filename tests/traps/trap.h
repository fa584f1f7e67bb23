/* What every trap program needs. A trap is a small program that does one thing which a tracer
   is known to get wrong, checks the outcome itself, and says what it saw. It leaves marks, which
   are opens of paths that do not exist, so that a test can look for them in the recording. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the trap with status 99 and says which line was not true. */
#define check(ok)                                                                     \
    do {                                                                              \
        if (!(ok)) {                                                                  \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #ok,     \
                    strerror(errno));                                                 \
            fflush(NULL);                                                             \
            _exit(99);                                                                \
        }                                                                             \
    } while (0)

/* Asks for /nonexistent/<name>, which must not be there. Makes one system call. */
__attribute__((format(printf, 1, 2), unused)) static void mark(const char *format, ...)
{
    char path[256] = "/nonexistent/";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + strlen(path), sizeof path - strlen(path), format, arguments);
    va_end(arguments);
    check(open(path, O_RDONLY) == -1 && errno == ENOENT);
}
