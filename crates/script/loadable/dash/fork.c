/* vfork() lends dash's memory to a child: all that it writes, dash has, too. What the child does of
   its own until it executes a program is signals and process groups. So dash itself may go on as
   if it were the child, until there is something that only a child can do; and where a tool is
   all that the child would be, it goes back to where it called vfork() and is the parent.

   Between the two, dash blocks all signals. What a parent is told by the kernel of its child, it
   is told here: SIGCHLD, and its status by wait3(). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../known.h"
#include "fork.h"
#include "vfork.h"

#define FOR_DASH __attribute__((visibility("default")))

void failed(int why)
{
    errno = -why;
    be_parent(-1);
}

static struct {
    pid_t (*wait3)(int *, int, struct rusage *);
    int (*sigaction)(int, const struct sigaction *, struct sigaction *);
    int (*sigsetmask)(int);
} libc;

__attribute__((constructor)) static void find(void)
{
    *(void **)&libc.wait3 = dlsym(RTLD_NEXT, "wait3");
    *(void **)&libc.sigaction = dlsym(RTLD_NEXT, "sigaction");
    *(void **)&libc.sigsetmask = dlsym(RTLD_NEXT, "sigsetmask");
}

/* Whether the child to be has asked for this mask of signals; until it is made, dash keeps its. */
static struct {
    bool is_asked;
    int mask;
} wanted;

/* The child that has ended and never was; no process has such a number (PID_MAX_LIMIT). */
static struct {
    bool is_there;
    pid_t pid;
    int status;
} ended = {.pid = 1 << 23};

bool is_child_to_be(void)
{
    return lent == 1;
}

bool is_borrowing(void)
{
    return lent == 2;
}

void be_a_child(void)
{
    if (lent != 1)
        return;
    lend();
    if (wanted.is_asked)
        libc.sigsetmask(wanted.mask);
    wanted.is_asked = false;
}

void end_child_to_be(int status)
{
    wanted.is_asked = false;
    ended.is_there = true;
    ended.pid = ended.pid == (1 << 24) ? 1 << 23 : ended.pid + 1;
    ended.status = status << 8;
    syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), SIGCHLD);
    be_parent(ended.pid);
}

FOR_DASH int sigsetmask(int mask)
{
    if (lent != 1)
        return libc.sigsetmask(mask);
    wanted.is_asked = true;
    wanted.mask = mask;
    return 0;
}

FOR_DASH int sigaction(int signal, const struct sigaction *new, struct sigaction *old)
{
    be_a_child();
    return libc.sigaction(signal, new, old);
}

FOR_DASH int setpgid(pid_t process, pid_t group)
{
    be_a_child();
    return syscall(SYS_setpgid, process, group);
}

FOR_DASH pid_t wait3(int *status, int flags, struct rusage *usage)
{
    if (!ended.is_there)
        return libc.wait3(status, flags, usage);
    ended.is_there = false;
    if (status)
        *status = ended.status;
    return ended.pid;
}
