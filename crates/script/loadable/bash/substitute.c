/* bash itself makes the pipe, keeps the books of a child, reads what it says and waits for it. But
   where it is known beforehand what a child would say, there is none: that is in the pipe already,
   and fork() and waitpid() tell of a child that has ended. */
#include <errno.h>
#include <unistd.h>
#include <sys/wait.h>

#include "bash.h"
#include "detour.h"
#include "pure.h"
#include "subshell.h"
#include "substitute.h"

/* No more than any pipe takes at once. */
enum { MOST_SAID = 4096 };

static struct capture said;

static struct {
    bool is_known; /* before the fork */
    bool has_ended; /* after it, before the wait */
    int status;
    pid_t pid;
    int ends[2]; /* of the pipe that was made last */
} child = {.pid = 1 << 23};

int pipe_noted(int *ends)
{
    int failed = pipe(ends);
    if (failed == 0) {
        child.ends[0] = ends[0];
        child.ends[1] = ends[1];
        note_pipe(ends);
    }
    return failed;
}

void tell_of_child(pid_t pid, int status)
{
    child.is_known = true;
    child.status = status;
    child.pid = pid - 1;
    said.size = 0;
}

pid_t child_that_is_known(void)
{
    if (!child.is_known)
        return 0;
    child.is_known = false;
    if (said.size && write(child.ends[1], said.bytes, said.size) != (ssize_t)said.size)
        return 0;
    child.has_ended = true;
    /* No process has such a number (PID_MAX_LIMIT). */
    child.pid = child.pid == 1 << 24 ? 1 << 23 : child.pid + 1;
    return child.pid;
}

pid_t waitpid_or_known(pid_t pid, int *status, int flags)
{
    if (waits_for_interrupted(flags))
        return 0;
    if (!child.has_ended || (pid != -1 && pid != child.pid))
        return waitpid(pid, status, flags);
    child.has_ended = false;
    if (status)
        *status = child.status;
    return child.pid;
}

static struct detour substituting;

static WORD_DESC *our_command_substitute(char *string, int quoted, int flags)
{
    int status;
    child.is_known = string && run_purely(string, &said, &status) && said.size <= MOST_SAID;
    child.status = status << 8;
    lead_back(&substituting);
    WORD_DESC *result = command_substitute(string, quoted, flags);
    lead_again(&substituting);
    child.is_known = false;
    return result;
}

bool take_over_substitution(void)
{
    return lead(&substituting, command_substitute, our_command_substitute);
}
