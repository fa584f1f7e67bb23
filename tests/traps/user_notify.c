/* Runs a command under a seccomp filter that asks this program about every openat, and lets all
   of them go on, as a container's supervisor may: user_notify COMMAND... */
#include "trap.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static int install(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                   &program);
}

/* Sends a descriptor, or receives one. */
static int pass(int socket, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (fd >= 0) {
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        check(sendmsg(socket, &message, 0) == 1);
    } else {
        check(recvmsg(socket, &message, 0) == 1);
        memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    }
    return fd;
}

/* Answers until no process with the filter is left. */
static void answer(int listener)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    while (poll(&ready, 1, -1) == 1 && !(ready.revents & POLLHUP)) {
        struct seccomp_notif asked = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) == -1)
            continue;
        struct seccomp_notif_resp answer = {.id = asked.id,
                                            .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

int main(int count, char **words)
{
    int sockets[2], status;
    check(count > 1);
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        int listener = install();
        check(listener >= 0);
        pass(sockets[1], listener);
        close(listener);
        execvp(words[1], words + 1);
        check(!"executed");
    }
    answer(pass(sockets[0], -1));
    check(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
