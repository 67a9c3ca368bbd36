// SPDX-License-Identifier: Apache-2.0
// Linux system calls that Swift's Glibc module does not show, or not with every version of the C library: sealed
// memory, process descriptors, child processes, a socket's peer, epoll, signals, settings of the clock, a terminal's
// width.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

// A sealable anonymous file, close-on-exec; -1 on failure. (MFD_CLOEXEC 1, MFD_ALLOW_SEALING 2)
static inline int csystem_memfd(const char *name) { return (int)syscall(SYS_memfd_create, name, 3u); }

// Forbids any later change. (F_ADD_SEALS 1033; SEAL 1, SHRINK 2, GROW 4, WRITE 8)
static inline int csystem_seal(int descriptor) { return fcntl(descriptor, 1033, 15); }

// Whether a descriptor is memory (memfd, tmpfs), which is read without waiting for another process. (F_GET_SEALS 1034)
static inline int csystem_is_memory(int descriptor) { return fcntl(descriptor, 1034) >= 0; }

// The device of the file system that a file is on, without asking that: one that a process plays (FUSE) might never
// answer. 0 on success. (statx with an empty mask and AT_EMPTY_PATH 0x1000 | AT_STATX_DONT_SYNC 0x4000; the device's
// numbers stand at bytes 136 and 140)
static inline int csystem_device(int descriptor, unsigned *major, unsigned *minor) {
    unsigned status[64] = {0};
    if (syscall(SYS_statx, descriptor, "", 0x5000, 0u, status) != 0) return -1;
    *major = status[34];
    *minor = status[35];
    return 0;
}

// Exchanges two files or directories: 0, or -1. (renameat2(2); AT_FDCWD -100, RENAME_EXCHANGE 2)
static inline int csystem_exchange(const char *path, const char *other) {
    return (int)syscall(SYS_renameat2, -100, path, -100, other, 2u);
}

// A descriptor that stands for the process `pid` and for no later one with the same number; -1 on failure.
static inline int csystem_pidfd_open(int pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

// Starts a program with the environment and these standard files: 0, or errno's number, also of the execution. The
// program receives `last` once this thread ends. With `apart` it has a session of its own, out of reach of a terminal's
// signals.
static inline int csystem_spawn(
    const char *path, char *const *arguments, const int *files, int apart, int last, int *process) {
    extern char **environ;
    int report[2], reason = 0, parent = getpid();
    if (pipe(report) != 0) return errno;
    fcntl(report[0], F_SETFD, FD_CLOEXEC);
    fcntl(report[1], F_SETFD, FD_CLOEXEC);
    *process = fork();
    if (*process < 0) reason = errno;
    if (*process == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);  // libdbus ignores it
        if (apart) setsid();
        prctl(PR_SET_PDEATHSIG, last);
        if (getppid() != parent) _exit(127);
        for (int index = 0; index < 3; index++) dup2(files[index], index);
        execve(path, arguments, environ);
        reason = errno;
        _exit(write(report[1], &reason, sizeof reason) < 0 ? 126 : 127);
    }
    close(report[1]);
    if (*process > 0) {
        while (read(report[0], &reason, sizeof reason) < 0 && errno == EINTR) {}
        if (reason != 0) waitpid(*process, NULL, 0);
    }
    close(report[0]);
    return reason;
}

// Makes this process the parent of its descendants whose own parent has ended. (PR_SET_CHILD_SUBREAPER)
static inline void csystem_adopt_orphans(void) { prctl(PR_SET_CHILD_SUBREAPER, 1); }

// The process that connected to a Unix socket, as the kernel recorded it then; 0 on success.
struct csystem_peer { int pid; unsigned uid; unsigned gid; };
static inline int csystem_peer_credentials(int descriptor, struct csystem_peer *peer) {
    struct { int pid; unsigned uid; unsigned gid; } credentials;
    socklen_t length = sizeof credentials;
    // SO_PEERCRED
    if (getsockopt(descriptor, SOL_SOCKET, 17, &credentials, &length) != 0) return -1;
    peer->pid = credentials.pid;
    peer->uid = credentials.uid;
    peer->gid = credentials.gid;
    return 0;
}

// The peer's supplementary groups: how many were written, or -1 (also when there are more than `count`).
// (SO_PEERGROUPS, Linux 4.13)
static inline int csystem_peer_groups(int descriptor, unsigned *groups, int count) {
    socklen_t length = (socklen_t)(count * (int)sizeof *groups);
    if (getsockopt(descriptor, SOL_SOCKET, 59, groups, &length) != 0) return -1;
    return (int)(length / sizeof *groups);
}

// The peer's security label: its length, or -1. (SO_PEERSEC)
static inline int csystem_peer_label(int descriptor, char *label, int size) {
    socklen_t length = (socklen_t)size;
    if (getsockopt(descriptor, SOL_SOCKET, 31, label, &length) != 0) return -1;
    return (int)length;
}

// A descriptor of the very process that connected, or -1. (SO_PEERPIDFD, Linux 6.5)
static inline int csystem_peer_pidfd(int descriptor) {
    int process = -1;
    socklen_t length = sizeof process;
    if (getsockopt(descriptor, SOL_SOCKET, 77, &process, &length) != 0) return -1;
    return process;
}

// A listening Unix socket at a path, close-on-exec and not blocking, with these permissions from its first moment on; a
// socket that was there is replaced. -1 on failure, with `errno`.
static inline int csystem_listen(const char *path, unsigned mode) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat old;
    if (strlen(path) >= sizeof address.sun_path) { errno = ENAMETOOLONG; return -1; }
    strcpy(address.sun_path, path);
    if (lstat(path, &old) == 0 && S_ISSOCK(old.st_mode)) unlink(path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -1;
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0 && chmod(path, mode) == 0 &&
        listen(descriptor, SOMAXCONN) == 0) return descriptor;
    int reason = errno;
    close(descriptor);
    errno = reason;
    return -1;
}

// Sends a datagram with a descriptor on a connected socket; 0 on success.
static inline int csystem_send_descriptor(int socket, const char *text, int descriptor) {
    union { struct cmsghdr header; char space[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec part = {.iov_base = (void *)text, .iov_len = strlen(text)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

// Sets the permissions of a socket of ours at `path`, besides our own: a user, a group if there is one (-1: none), and
// others, with the bits of a mode. An access control list can name others without any right of a superuser (acl(5), and
// uapi/linux/posix_acl_xattr.h). The path is not followed, and must be a socket of ours. 0 on success.
static inline int csystem_permit(const char *path, unsigned user, long long group, unsigned mode) {
    struct { unsigned version; struct { unsigned short tag, permissions; unsigned identifier; } entries[6]; } list = {
        2, {{0x01, 6, -1u}, {0x02, mode >> 6 & 7, user}, {0x04, 0, -1u}}};
    int count = 3;
    if (group >= 0) {
        list.entries[count].tag = 0x08;
        list.entries[count].permissions = mode >> 3 & 7;
        list.entries[count++].identifier = (unsigned)group;
    }
    list.entries[count].tag = 0x10;
    list.entries[count].permissions = 7;
    list.entries[count++].identifier = -1u;
    list.entries[count].tag = 0x20;
    list.entries[count].permissions = mode & 7;
    list.entries[count++].identifier = -1u;
    struct stat found;
    char link[64];
    int descriptor = open(path, 010000000 | O_NOFOLLOW | O_CLOEXEC);  // O_PATH
    if (descriptor < 0) return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    int done = -1;
    if (fstat(descriptor, &found) != 0 || !S_ISSOCK(found.st_mode) || found.st_uid != geteuid()) errno = EEXIST;
    else done = setxattr(link, "system.posix_acl_access", &list, 4 + (size_t)count * 8, 0);
    int reason = errno;
    close(descriptor);
    errno = reason;
    return done;
}

// The next connection of a listening socket, close-on-exec and not blocking; -1 without one.
static inline int csystem_accept(int descriptor) {
    return accept4(descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

// Duplicates `other` onto `descriptor`, close-on-exec, and closes its former file. (dup3; 0 on success)
static inline int csystem_become(int descriptor, int other) {
    return syscall(SYS_dup3, other, descriptor, O_CLOEXEC) == descriptor ? 0 : -1;
}

// A socket that is connected to one in the abstract namespace, close-on-exec and not blocking; -1 on failure.
static inline int csystem_connect_abstract(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length >= sizeof address.sun_path) { errno = ENAMETOOLONG; return -1; }
    memcpy(address.sun_path + 1, name, length);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -1;
    if (connect(descriptor, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
        return descriptor;
    int reason = errno;
    close(descriptor);
    errno = reason;
    return -1;
}

// A socket that is connected to one at a path, close-on-exec and not blocking: a full queue of that socket is an error
// (EAGAIN), rather than waited for. -1 on failure, with `errno`.
static inline int csystem_connect(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) { errno = ENAMETOOLONG; return -1; }
    strcpy(address.sun_path, path);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -1;
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0) return descriptor;
    int reason = errno;
    close(descriptor);
    errno = reason;
    return -1;
}

// A terminal's size in cells: 0 on success, and -1 when it is none, or does not know. (TIOCGWINSZ 0x5413; glibc 2.41
// has its structure where no module of Swift's shows it)
static inline int csystem_window_size(int descriptor, int *columns, int *rows) {
    unsigned short size[4] = {0};
    if (syscall(SYS_ioctl, descriptor, 0x5413ul, size) != 0 || size[0] == 0 || size[1] == 0) return -1;
    *rows = size[0];
    *columns = size[1];
    return 0;
}

// Which descriptors are ready (epoll). The events are those of poll(2): IN 1, PRI 2, OUT 4, ERR 8, HUP 16.
struct csystem_ready { unsigned long long key; unsigned events; };

// A new set of descriptors, close-on-exec; -1 on failure. (EPOLL_CLOEXEC)
static inline int csystem_epoll(void) { return epoll_create1(EPOLL_CLOEXEC); }

// Adds a descriptor to the set, or changes its events; 0 on success.
static inline int csystem_epoll_set(int set, int descriptor, unsigned events, unsigned long long key) {
    struct epoll_event event = {.events = events, .data = {.u64 = key}};
    // Another one of the same number may have been closed meanwhile, and that has left the set by itself.
    if (epoll_ctl(set, EPOLL_CTL_MOD, descriptor, &event) == 0) return 0;
    return errno == ENOENT ? epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) : -1;
}

static inline void csystem_epoll_remove(int set, int descriptor) { epoll_ctl(set, EPOLL_CTL_DEL, descriptor, NULL); }

// Waits until some are ready: how many of at most 32 were written, 0 also after a signal.
static inline int csystem_epoll_wait(int set, struct csystem_ready *ready, int milliseconds) {
    struct epoll_event events[32];
    int count = epoll_wait(set, events, 32, milliseconds);
    for (int index = 0; index < count; index++) {
        ready[index].key = events[index].data.u64;
        ready[index].events = events[index].events;
    }
    return count < 0 ? 0 : count;
}

// A descriptor that is readable each time the wall clock was set, or the system was suspended; -1 on failure.
// (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET)
static inline int csystem_clock_set(void) {
    int descriptor = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    // Later than any time.
    struct itimerspec never = {.it_value = {.tv_sec = ((time_t)1 << (sizeof(time_t) * 8 - 2)) - 1}};
    if (descriptor >= 0 && timerfd_settime(descriptor, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) != 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

// Takes the news from the descriptor.
static inline void csystem_clock_set_take(int descriptor) {
    unsigned long long count;
    if (read(descriptor, &count, sizeof count) < 0) return;
}

// A descriptor that is readable once a signal has come; -1 on failure. Until `csystem_signal_end` the signal does
// nothing else in this thread.
static inline int csystem_signal(int number) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, number);
    int descriptor = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor >= 0) pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return descriptor;
}

// Takes the signal from the descriptor: whether it had come.
static inline int csystem_signal_take(int descriptor) {
    struct signalfd_siginfo information;
    return read(descriptor, &information, sizeof information) == (ssize_t)sizeof information;
}

// The signal has its former action again.
static inline void csystem_signal_end(int number) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, number);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

// Packets of a socket, several by one call: `count` slots of `size` bytes each.
struct csystem_packets { unsigned char *bytes; unsigned size; int count; unsigned lengths[8]; };

// As the kernel has it: the C library shows it to GNU programs only.
struct csystem_message { struct msghdr header; unsigned length; };

// Receives at most 8 packets that are there: how many, or -1. A socket that has ended gives empty ones.
static inline int csystem_receive(int socket, struct csystem_packets *packets) {
    struct csystem_message messages[8];
    struct iovec slots[8];
    for (int index = 0; index < 8; index++) {
        slots[index] = (struct iovec){packets->bytes + index * packets->size, packets->size};
        messages[index] = (struct csystem_message){.header = {.msg_iov = &slots[index], .msg_iovlen = 1}};
    }
    packets->count = (int)syscall(SYS_recvmmsg, socket, messages, 8u, MSG_DONTWAIT, NULL);
    for (int index = 0; index < packets->count; index++) packets->lengths[index] = messages[index].length;
    return packets->count;
}

// Sends the packets from the one at `first` to the one before `end`: how many the socket took, or -1 when none.
static inline int csystem_send(int socket, const struct csystem_packets *packets, int first, int end) {
    struct csystem_message messages[8];
    struct iovec slots[8];
    for (int index = first; index < end; index++) {
        slots[index - first] = (struct iovec){packets->bytes + index * packets->size, packets->lengths[index]};
        messages[index - first] = (struct csystem_message){.header = {.msg_iov = &slots[index - first], .msg_iovlen = 1}};
    }
    return (int)syscall(SYS_sendmmsg, socket, messages, (unsigned)(end - first), MSG_DONTWAIT | MSG_NOSIGNAL);
}
