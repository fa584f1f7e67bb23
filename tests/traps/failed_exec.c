/* Executing what cannot be executed: failed_exec DIRECTORY. Then executes a script without an
   interpreter line by execvp, which runs it with the shell. */
#include "trap.h"
#include <sys/stat.h>

static void put(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, mode);
    check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void try(const char *name)
{
    char *words[] = {(char *)name, NULL}, *environment[] = {NULL};
    check(execve(name, words, environment) == -1);
    printf("%s: %s\n", name, strerrorname_np(errno));
}

int main(int count, char **words)
{
    check(count == 2 && chdir(words[1]) == 0);
    put("plain", "text", 0644);
    put("garbage", "text", 0755);
    put("lost", "#!/nonexistent/interpreter\n", 0755);
    put("script", "echo \"the shell ran $1\"; exit 8\n", 0755);
    check(mkdir("directory", 0755) == 0);
    try("missing");
    try("plain");
    try("garbage");
    try("lost");
    try("directory");
    try("plain/below");
    fflush(stdout);
    execlp("./script", "./script", "me", NULL);
    return 98;
}
