#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "input.h"
#include "plain.h"

/* One byte more than a file has: that it has no more is seen, too. */
static char bytes[MOST_INPUT + 1];

char made[MOST_INPUT + 1];

static bool is_one(const struct stat *file, const struct stat *other)
{
    return file->st_dev == other->st_dev && file->st_ino == other->st_ino;
}

/* Appends a file. Files that say they are empty may still have content, as in /proc. */
static bool append(const char *path, const struct stat *out, struct input *input)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0 ||
        (size_t)about.st_size > MOST_INPUT - input->size || (out && is_one(&about, out)))
        return false;
    int file = open_for_all(path, O_RDONLY, 0);
    if (file < 0)
        return false;
    ssize_t got = read(file, bytes + input->size, about.st_size + 1);
    close(file);
    input->size += got > 0 ? got : 0;
    return got == about.st_size;
}

/* A file, or a pipe that nobody writes to any more, as a here-document's. It is looked at here, and
   taken last. */
static bool look_at_stdin(const struct stat *out, struct input *input)
{
    struct stat about;
    size_t room = MOST_INPUT - input->size;
    input->stdin_from = input->size;
    if (fstat(0, &about) != 0)
        return false;
    input->is_pipe = S_ISFIFO(about.st_mode);
    if (input->is_pipe) {
        struct pollfd in = {.fd = 0, .events = POLLIN};
        int size;
        if (poll(&in, 1, 0) != 1 || !(in.revents & POLLHUP) || ioctl(0, FIONREAD, &size) != 0)
            return false;
        input->stdin_size = size;
        return input->stdin_size <= room;
    }
    off_t at = lseek(0, 0, SEEK_CUR);
    if (!S_ISREG(about.st_mode) || at < 0 || about.st_size <= at || (out && is_one(&about, out)) ||
        (size_t)(about.st_size - at) > room)
        return false;
    input->is_file = true;
    input->stdin_size = about.st_size - at;
    return pread(0, bytes + input->size, input->stdin_size + 1, at) == (ssize_t)input->stdin_size;
}

static bool take_stdin(struct input *input)
{
    return !input->is_pipe ||
           read(0, bytes + input->stdin_from, input->stdin_size) == (ssize_t)input->stdin_size;
}

bool take_input(struct request *request, struct input *input)
{
    struct stat out;
    *input = (struct input){.bytes = bytes, .joints_end = true};
    if (request->is_filter) {
        input->bytes = (char *)request->in;
        input->size = request->in_size;
        return left(request) == 0 || (left(request) == 1 && strcmp(operand(request), "-") == 0);
    }
    bool has_out = !is_capturing();
    if (has_out && fstat(1, &out) != 0)
        return false;
    bool has_stdin = left(request) == 0;
    if (has_stdin && (request->no_input || !look_at_stdin(has_out ? &out : NULL, input)))
        return false;
    input->size += input->stdin_size;
    for (int at = request->first; at < request->argc; at++) {
        if (input->size && bytes[input->size - 1] != '\n')
            input->joints_end = false;
        /* Even where there is a file of that name: standard input. */
        if (strcmp(request->argv[at], "-") != 0) {
            if (!append(request->argv[at], has_out ? &out : NULL, input))
                return false;
            continue;
        }
        if (has_stdin || request->no_input || !look_at_stdin(has_out ? &out : NULL, input))
            return false;
        has_stdin = true;
        input->size += input->stdin_size;
    }
    return !has_stdin || take_stdin(input);
}

void give_back(const struct input *input)
{
    int ends[2];
    if (!input->is_pipe || pipe2(ends, O_CLOEXEC) != 0)
        return;
    if (write(ends[1], bytes + input->stdin_from, input->stdin_size) == (ssize_t)input->stdin_size)
        dup2(ends[0], 0);
    close(ends[0]);
    close(ends[1]);
}

void input_was_read(const struct input *input)
{
    if (input->is_file)
        lseek(0, input->stdin_size, SEEK_CUR);
}

bool say_for(const struct input *input, const char *text, size_t size)
{
    if (!can_say(size) || (size > 0 && !say(text, size))) {
        give_back(input);
        return false;
    }
    input_was_read(input);
    return true;
}
