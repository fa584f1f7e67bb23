/* Paths as hostile as a program can give them. Prints the outcome of each. */
#include "trap.h"
#include <sys/mman.h>

static void ask(const char *what, const char *path)
{
    int fd = open(path, O_RDONLY);
    printf("%s: %s\n", what, fd == -1 ? strerrorname_np(errno) : "opened");
    if (fd != -1)
        close(fd);
}

/* A path of `length` bytes: /a/a/a…, whose last byte is an a. */
static const char *of_length(size_t length)
{
    static char path[8192];
    for (size_t i = 0; i < length; i++)
        path[i] = i % 2 || i == length - 1 ? 'a' : '/';
    path[length] = 0;
    return path;
}

int main(void)
{
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    memset(pages, '/', 4096);
    char *last = pages + 4096 - sizeof "/nonexistent/at-the-edge";
    strcpy(last, "/nonexistent/at-the-edge");

    ask("null", NULL);
    ask("low", (char *)1);
    ask("kernel", (char *)-4096L);
    ask("not canonical", (char *)0x8000000000000000);
    ask("unmapped", pages + 4096);
    ask("ends at a page's end", last);
    pages[4095] = 'x';
    ask("runs into an unmapped page", last);
    check(mprotect(pages + 2 * 4096, 4096, PROT_NONE) == 0);
    ask("not readable", pages + 2 * 4096);
    ask("empty", "");
    ask("4095 bytes", of_length(4095));
    ask("4096 bytes", of_length(4096));
    ask("6000 bytes", of_length(6000));
    ask("newline", "/nonexistent/two\nlines");
    ask("not UTF-8", "/nonexistent/\xff\xfe\x80");
    ask("control", "/nonexistent/\x1b[31mred\t");
    check(syscall(SYS_openat, 12345, "relative", O_RDONLY) == -1);
    printf("no such directory descriptor: %s\n", strerrorname_np(errno));
    return 0;
}
