/* Relative paths, from every kind of place. For each call it prints the full path that was
   asked for: places DIRECTORY, where DIRECTORY is empty and its path has no symbolic link. */
#include "trap.h"
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

static char root[3000];

/* Asks for `name`, relative to `directory`, which is known to be `where`. */
static void ask(int directory, const char *where, const char *name)
{
    check(openat(directory, name, O_RDONLY) == -1 && errno == ENOENT);
    printf("%s%s/%s\n", root, where, name);
}

static void *move_together(void *unused)
{
    check(chdir("b") == 0);
    return unused;
}

static void *move_alone(void *unused)
{
    check(unshare(CLONE_FS) == 0);
    check(chdir("c") == 0);
    ask(AT_FDCWD, "/a/b/c", "thread-alone");
    return unused;
}

static void in_thread(void *(*run)(void *))
{
    pthread_t thread;
    check(!pthread_create(&thread, NULL, run, NULL) && !pthread_join(thread, NULL));
}

static void in_child(void (*run)(void))
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        run();
        fflush(stdout);
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child && status == 0);
}

static void child_moves(void)
{
    check(chdir("..") == 0);
    ask(AT_FDCWD, "/a", "child");
}

static int open_directory(int from, const char *path)
{
    int fd = openat(from, path, O_PATH | O_DIRECTORY);
    check(fd >= 0);
    return fd;
}

int main(int count, char **words)
{
    check(count == 2 && chdir(words[1]) == 0 && getcwd(root, sizeof root));
    check(!mkdir("a", 0700) && !mkdir("a/b", 0700) && !mkdir("a/b/c", 0700));
    ask(AT_FDCWD, "", "start");
    int top = open_directory(AT_FDCWD, root), a = open_directory(top, "a"), b = open_directory(a, "b");
    ask(top, "", "by-descriptor");
    ask(b, "/a/b", "by-nested-descriptor");
    ask(dup(b), "/a/b", "by-dup");
    ask(fcntl(a, F_DUPFD, 100), "/a", "by-fcntl");
    check(dup2(b, a) == a);
    ask(a, "/a/b", "by-dup2");
    close(a);
    a = open_directory(AT_FDCWD, "a");
    ask(a, "/a", "by-number-used-again");
    check(fchdir(a) == 0);
    ask(AT_FDCWD, "/a", "after-fchdir");
    check(chdir("nowhere") == -1);
    ask(AT_FDCWD, "/a", "after-failed-chdir");
    in_thread(move_together);
    ask(AT_FDCWD, "/a/b", "after-threads-chdir");
    in_thread(move_alone);
    ask(AT_FDCWD, "/a/b", "after-unshared-chdir");
    in_child(child_moves);
    ask(AT_FDCWD, "/a/b", "after-childs-chdir");
    ask(top, "", "by-inherited-descriptor");
    check(openat(b, "/nonexistent/absolute", O_RDONLY) == -1);
    printf("/nonexistent/absolute\n");
    return 0;
}
