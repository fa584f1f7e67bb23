#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bash.h"
#include "probe.h"

/* Probes are some 20 KB. */
enum { LONGEST_PROBE = 64 << 10 };

/* What a program has in its file if it asks who its parent is, signals it, or starts what might: names of
   functions that it takes from the C library, and of what it opens. */
static const char *const ASKING[] = {
    "getppid", "kill", "sigqueue", "pidfd", "ptrace", "prctl", "setpgid", "setpgrp", "tcsetpgrp",
    "process_vm", "syscall", "system", "popen", "exec", "posix_spawn", "dlopen", "dlsym", "/proc",
};

/* The content of a small regular file that can be executed. NULL: it is none. To be freed. */
static char *content_of(const char *path, size_t *length)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *content = NULL;
    if (file < 0)
        return NULL;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size <= LONGEST_PROBE &&
        faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0) {
        content = xmalloc(LONGEST_PROBE);
        ssize_t got = read(file, content, LONGEST_PROBE);
        *length = got < 0 ? 0 : got;
    }
    close(file);
    return content;
}

/* Whether it has the C library's functions by their names, which a static program need not have kept. */
static bool is_dynamic(const char *content, size_t length)
{
    const Elf64_Ehdr *header = (const void *)content;
    if (length < sizeof *header || memcmp(content, ELFMAG, SELFMAG) != 0 ||
        content[EI_CLASS] != ELFCLASS64 || header->e_phentsize != sizeof(Elf64_Phdr) ||
        header->e_phoff % sizeof(Elf64_Off) != 0 || header->e_phoff > length ||
        (length - header->e_phoff) / sizeof(Elf64_Phdr) < header->e_phnum)
        return false;
    const Elf64_Phdr *segments = (const void *)(content + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_INTERP)
            return true;
    return false;
}

static bool is_asking(const char *content, size_t length)
{
    for (size_t i = 0; i < sizeof ASKING / sizeof *ASKING; i++)
        if (memmem(content, length, ASKING[i], strlen(ASKING[i])))
            return true;
    return false;
}

bool is_probe(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = 0;
    if (strcmp(slash ? slash + 1 : path, "conftest") != 0)
        return false;
    char *content = content_of(path, &length);
    bool is = content && is_dynamic(content, length) && !is_asking(content, length);
    if (content)
        xfree(content);
    return is;
}
