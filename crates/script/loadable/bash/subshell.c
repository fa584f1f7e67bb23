#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../count.h"
#include "../known.h"
#include "bash.h"
#include "detour.h"
#include "probe.h"
#include "pure.h"
#include "start.h"
#include "subshell.h"
#include "substitute.h"
#include "tools.h"
#include "words.h"

enum { PIDFD_OPEN = 434, PIPES = 8 };

/* The program of the subshell that is to be made; redirections in the order of their doing. */
static struct {
    bool is_ready, is_killed;
    char *path, **argv;
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status; /* once it was killed */
} program;

static struct {
    bool is_interrupted; /* while the last one ran, the shell was */
    bool opens_again;    /* this process is a copy whose program has ended already */
} lone;

/* The last pipes: in a pipeline, one of them is open. */
static struct stat pipes[PIPES][2];
static int pipe_ends[PIPES][2];

void note_pipe(const int *ends)
{
    static int next;
    for (int end = 0; end < 2; end++) {
        pipe_ends[next][end] = ends[end];
        fstat(ends[end], &pipes[next][end]);
    }
    next = (next + 1) % PIPES;
}

static bool is_in_pipeline(void)
{
    for (int i = 0; i < PIPES * 2; i++) {
        struct stat now, *then = &pipes[i / 2][i % 2];
        if (then->st_ino && fstat(pipe_ends[i / 2][i % 2], &now) == 0 &&
            now.st_ino == then->st_ino && now.st_dev == then->st_dev)
            return true;
    }
    return false;
}

/* The file that a redirection names. NULL: what it names may be another in a child, or it is no
   regular file. To be freed. */
static char *file_of(const char *word)
{
    char quoted[LONGEST_TEXT], *file = NULL;
    struct stat about;
    bool has_variables = strchr(word, '$') != NULL;
    if (has_variables && strpbrk(word, "'\"\\"))
        return NULL;
    /* What is quoted is one word, as it is: no pattern. */
    if ((size_t)snprintf(quoted, sizeof quoted, has_variables ? "\"%s\"" : "%s", word) >= sizeof quoted)
        return NULL;
    WORD_LIST *written = make_word_list(make_word(quoted), NULL);
    WORD_LIST *words = expand_words_no_vars(written);
    dispose_words(written);
    if (words && !words->next && words->word->word[0] && !strpbrk(words->word->word, " \t\n*?[]") &&
        !(ifs_value && strpbrk(words->word->word, ifs_value)))
        file = strcpy(xmalloc(strlen(words->word->word) + 1), words->word->word);
    if (words)
        dispose_words(words);
    bool is_null = file && strcmp(file, "/dev/null") == 0;
    bool is_new = file && stat(file, &about) != 0 && errno == ENOENT;
    if (file && !is_null && (strncmp(file, "/dev/", 5) == 0 || strstr(file, "/proc/") ||
                             (!is_new && !S_ISREG(about.st_mode)))) {
        xfree(file);
        return NULL;
    }
    return file;
}

static bool add_redirection(const struct redirection *one)
{
    if (!one->word)
        return posix_spawn_file_actions_adddup2(&program.actions, one->from, one->descriptor) == 0;
    char *file = file_of(one->word);
    if (!file)
        return false;
    int flags = O_WRONLY | O_CREAT | (one->appends ? O_APPEND : O_TRUNC);
    int failed =
        posix_spawn_file_actions_addopen(&program.actions, one->descriptor, file, flags, 0666);
    xfree(file);
    return failed == 0;
}

/* Those of the parentheses first, then those within. */
static bool add_redirections(const struct pipeline *pipeline)
{
    int inner = pipeline->is_subshell ? pipeline->inner : 0;
    for (int i = 0; i < pipeline->redirected; i++)
        if (!add_redirection(&pipeline->redirections[(inner + i) % pipeline->redirected]))
            return false;
    return true;
}

/* Whether a name is a compiler's: "gcc", "x86_64-linux-gnu-gcc-12", "clang++-14". */
static bool is_compilers(const char *name)
{
    static const char *const NAMES[] = {"cc",  "gcc",   "c++", "g++", "cpp",  "clang", "clang++",
                                        "tcc", "icc",   "icx", "icpc", "icpx", "ifort", "ifx",
                                        "nvc", "nvc++", "f77", "f95", "gfortran", "flang"};
    size_t length = strlen(name), end;
    /* A version behind it. */
    for (end = length; end > 0 && strchr("0123456789.", name[end - 1]); end--)
        ;
    if (end < length && end > 0 && name[end - 1] == '-')
        length = end - 1;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        size_t of = strlen(NAMES[i]);
        if (of <= length && strncmp(name + length - of, NAMES[i], of) == 0 &&
            (of == length || name[length - of - 1] == '-'))
            return true;
    }
    return false;
}

/* Programs that ask for no parent, and signal none: theirs is the shell here, and would be its copy.
   Scripts may do that under such a name, too. */
static bool is_compiler(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat file;
    char start[4] = "";
    if (!is_compilers(slash ? slash + 1 : path) || stat(path, &file) != 0 ||
        !S_ISREG(file.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) != 0)
        return false;
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    bool is_elf = opened >= 0 && read(opened, start, sizeof start) == sizeof start &&
                  memcmp(start, "\177ELF", sizeof start) == 0;
    if (opened >= 0)
        close(opened);
    return is_elf;
}

static bool take_program(const WORD_LIST *words)
{
    int count = 0;
    /* What may be done in a shell's own process, the subshell does. */
    if (tool_of_word(words->word->word) < TOOLS_KNOWN)
        return false;
    for (const WORD_LIST *word = words; word; word = word->next)
        count++;
    program.argv = xmalloc((count + 1) * sizeof *program.argv);
    for (count = 0; words; words = words->next)
        program.argv[count++] = strcpy(xmalloc(strlen(words->word->word) + 1), words->word->word);
    program.argv[count] = NULL;
    program.path = program_of_word(program.argv[0]);
    return program.path && (is_compiler(program.path) || is_probe(program.path));
}

static bool find_program(const struct pipeline *written, int depth)
{
    struct pipeline inner;
    if ((aliases && find_alias(written->words[0])) || !add_redirections(written))
        return false;
    WORD_LIST *words = expand(written, 0);
    bool is_found = false;
    const char *name = words ? words->word->word : "";
    if (words && !find_function(name) && !(aliases && find_alias((char *)name))) {
        if (!is_builtin_of_bash(name))
            /* Without eval, bash's copy executes it itself. */
            is_found = depth > 0 && take_program(words);
        else if (strcmp(name, "eval") == 0 && depth < DEEPEST)
            is_found = read_eval(words->next, &inner) && find_program(&inner, depth + 1);
    }
    if (words)
        dispose_words(words);
    return is_found;
}

static bool is_lone_program(const char *text)
{
    struct pipeline written;
    /* bash -c, and a script on standard input, have rules of their own. */
    return shell_adds_nothing() && !noclobber && startup_state != 2 &&
           default_buffered_input != 0 && !is_in_pipeline() && read_pipeline(text, &written) &&
           written.is_subshell && find_program(&written, 0);
}

static void forget_program(void)
{
    posix_spawn_file_actions_destroy(&program.actions);
    for (char **word = program.argv; word && *word; word++)
        xfree(*word);
    xfree(program.argv);
    xfree(program.path);
    program.path = NULL;
    program.argv = NULL;
    program.is_ready = program.is_killed = false;
}

static struct detour making;

static pid_t our_make_child(char *text, int flags)
{
    bool is_subshell = flags == FORK_SYNC && text && strncmp(text, "( ", 2) == 0;
    if (is_subshell) {
        posix_spawn_file_actions_init(&program.actions);
        program.is_ready = is_lone_program(text);
    }
    lead_back(&making);
    pid_t child = make_child(text, flags);
    lead_again(&making);
    if (is_subshell)
        forget_program();
    return child;
}

/* As pending: make_child has it blocked. */
static bool take_interrupt(void)
{
    sigset_t interrupt, pending;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigpending(&pending);
    return sigismember(&pending, SIGINT) &&
           sigtimedwait(&interrupt, NULL, &(struct timespec){0}) == SIGINT;
}

/* Waits as bash would in wait_for: until the program has ended, or the shell is to. */
static void wait_until(pid_t child)
{
    sigset_t meanwhile;
    struct pollfd end = {.fd = syscall(PIDFD_OPEN, child, 0), .events = POLLIN};
    sigprocmask(SIG_BLOCK, NULL, &meanwhile);
    sigdelset(&meanwhile, SIGTERM);
    if (end.fd < 0)
        return;
    while (!terminating_signal && ppoll(&end, 1, NULL, &meanwhile) < 0 && errno == EINTR)
        ;
    close(end.fd);
}

/* Whether it was killed, so that its shell has something to say; it is waited for then. */
static bool was_killed(pid_t child, int *status)
{
    siginfo_t end = {.si_pid = 0};
    wait_until(child);
    if (waitid(P_PID, child, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != child)
        return false;
    bool is_interrupted = take_interrupt();
    lone.is_interrupted = is_interrupted;
    /* By what all of the process group got, and would have killed the subshell, too. */
    int by = end.si_code == CLD_EXITED ? 0 : end.si_status;
    if (by == 0 || (by == SIGINT && is_interrupted) || (by < NSIG && pending_traps[by]))
        return false;
    if (is_interrupted)
        kill(getpid(), SIGINT);
    lone.is_interrupted = false;
    return waitpid(child, status, 0) == child;
}

bool start_of_subshell(pid_t *child)
{
    if (program.is_ready) {
        program.is_ready = false;
        *child = spawn(program.path, program.argv, &program.actions);
        if (*child == 0)
            return false;
        count_other(1);
        program.pid = *child;
        program.is_killed = was_killed(*child, &program.status);
        if (!program.is_killed)
            return true;
    }
    if (!program.is_killed)
        return false;
    /* What is said now, and where, is the subshell's own: here it is, at the end of its program. */
    *child = fork();
    if (*child == 0) {
        lone.opens_again = true;
        tell_of_child(program.pid, program.status);
    }
    program.is_killed = *child < 0;
    return true;
}

void subshell_has_begun(void)
{
    lone.opens_again = false;
}

int open_or_again(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    int file = open(path, lone.opens_again ? flags & ~O_TRUNC : flags, mode);
    if (file >= 0 && lone.opens_again)
        lseek(file, 0, SEEK_END);
    return file;
}

bool waits_for_interrupted(int flags)
{
    if (!lone.is_interrupted)
        return false;
    /* Only where bash waits for that child does it know what to do. */
    if (flags & WNOHANG)
        return true;
    lone.is_interrupted = false;
    raise(SIGINT);
    return false;
}

bool take_over_subshells(void)
{
    return lead(&making, make_child, our_make_child);
}
