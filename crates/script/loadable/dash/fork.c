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

#define FOR_DASH __attribute__((visibility("default")))

/* 0: dash is itself; 1: it is in a child to be; 2: a child has its memory. */
__attribute__((used)) static int lent;

/* Registers that a function leaves as they are, the stack's top and where it goes on, when dash
   called vfork(). */
__attribute__((used)) static unsigned long at_vfork[8];

/* vfork(): returns as in a child, without one. */
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork,@function\n"
        "vfork:\n"
        "    lea at_vfork(%rip), %rax\n"
        "    mov %rbx, (%rax)\n"
        "    mov %rbp, 8(%rax)\n"
        "    mov %r12, 16(%rax)\n"
        "    mov %r13, 24(%rax)\n"
        "    mov %r14, 32(%rax)\n"
        "    mov %r15, 40(%rax)\n"
        "    lea 8(%rsp), %rcx\n"
        "    mov %rcx, 48(%rax)\n"
        "    mov (%rsp), %rcx\n"
        "    mov %rcx, 56(%rax)\n"
        "    movl $1, lent(%rip)\n"
        "    xor %eax, %eax\n"
        "    ret\n"
        ".size vfork,.-vfork\n"
        /* Returns from vfork() once more, as in the parent, of a child's id or an error's number. */
        ".type be_parent,@function\n"
        "be_parent:\n"
        "    movl $0, lent(%rip)\n"
        "    lea at_vfork(%rip), %rdx\n"
        "    mov (%rdx), %rbx\n"
        "    mov 8(%rdx), %rbp\n"
        "    mov 16(%rdx), %r12\n"
        "    mov 24(%rdx), %r13\n"
        "    mov 32(%rdx), %r14\n"
        "    mov 40(%rdx), %r15\n"
        "    mov 48(%rdx), %rsp\n"
        "    movslq %edi, %rax\n"
        "    jmp *56(%rdx)\n"
        ".size be_parent,.-be_parent\n"
        /* The child returns. The parent goes on when the child is gone, and needs nothing of the
           stack that the child has used meanwhile: an error is told by a C function on its own part
           of it. */
        ".type lend,@function\n"
        "lend:\n"
        "    movl $2, lent(%rip)\n"
        "    mov $58, %eax\n" /* vfork */
        "    syscall\n"
        "    test %eax, %eax\n"
        "    jz 1f\n"
        "    mov %eax, %edi\n"
        "    jns be_parent\n"
        "    sub $8, %rsp\n"
        "    call failed\n"
        "1:  ret\n"
        ".size lend,.-lend\n");

void be_parent(int child) __attribute__((noreturn));
void lend(void);

__attribute__((used, noreturn)) static void failed(int why)
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
