// SPDX-License-Identifier: Apache-2.0
// The cost of a hop, for `make bench`: C that copies bytes, and descriptors with them, between each client of a Unix
// socket and a connection of its own to the bus. It knows nothing of D-Bus: clients authenticate with the bus, which
// sees this program's user.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// One end of a connection, and the destination of its data.
struct end {
    int socket;
    struct end *other;
};

// The most that one message of a socket carries (SCM_MAX_FD).
enum { DESCRIPTORS = 253 };

static int waiting;

static void fail(const char *what) {
    fprintf(stderr, "relay-baseline: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void listen_to(int socket, void *who) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
    if (epoll_ctl(waiting, EPOLL_CTL_ADD, socket, &event) != 0) fail("epoll_ctl");
}

// unix:path=… or unix:abstract=…
static int connect_to(const char *address) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *path = strstr(address, "path="), *abstract = strstr(address, "abstract=");
    const char *text = path != NULL ? path + 5 : abstract != NULL ? abstract + 9 : "";
    size_t length = strcspn(text, ","), begin = path != NULL ? 0 : 1;
    if (length == 0 || begin + length >= sizeof name.sun_path) fail(address);
    memcpy(name.sun_path + begin, text, length);
    int bus = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + begin + length);
    if (bus < 0 || connect(bus, (struct sockaddr *)&name, size) != 0) fail(address);
    return bus;
}

static int listen_at(const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || bind(server, (struct sockaddr *)&name, sizeof name) != 0 || listen(server, 8) != 0) fail(path);
    return server;
}

static void accept_client(int server, const char *address) {
    struct end *ends = calloc(2, sizeof *ends);
    if (ends == NULL) fail("calloc");
    ends[0] = (struct end){accept4(server, NULL, NULL, SOCK_CLOEXEC), &ends[1]};
    if (ends[0].socket < 0) fail("accept");
    ends[1] = (struct end){connect_to(address), &ends[0]};
    for (int side = 0; side < 2; side++) listen_to(ends[side].socket, &ends[side]);
}

// The end of one side ends both. Events that epoll has fetched may still refer to them, so they are not freed.
static void hang_up(struct end *end) {
    close(end->socket);
    close(end->other->socket);
    end->socket = end->other->socket = -1;
}

static void close_descriptors(struct msghdr *message) {
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each != NULL; each = CMSG_NXTHDR(message, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
        int *descriptors = (int *)CMSG_DATA(each);
        size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof *descriptors;
        for (size_t index = 0; index < count; index++) close(descriptors[index]);
    }
}

static void copy(struct end *end) {
    static char bytes[1 << 16];
    static union {
        char space[CMSG_SPACE(sizeof(int) * DESCRIPTORS)];
        struct cmsghdr alignment;
    } control;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t count = recvmsg(end->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return hang_up(end);
    part.iov_len = (size_t)count;
    struct msghdr sent = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = message.msg_controllen > 0 ? &control : NULL,
        .msg_controllen = message.msg_controllen};
    // It waits for room: there is one client at a time.
    while (part.iov_len > 0) {
        count = sendmsg(end->other->socket, &sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) break;
        part.iov_base = (char *)part.iov_base + count;
        part.iov_len -= (size_t)count;
        sent.msg_control = NULL;
        sent.msg_controllen = 0;
    }
    close_descriptors(&message);
    if (part.iov_len > 0) hang_up(end);
}

int main(int number, char **words) {
    if (number != 3) {
        fputs("usage: relay-baseline SOCKET BUS-ADDRESS\n", stderr);
        return 1;
    }
    waiting = epoll_create1(EPOLL_CLOEXEC);
    int server = listen_at(words[1]);
    listen_to(server, NULL);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[16];
        int count = epoll_wait(waiting, events, 16, -1);
        for (int index = 0; index < count; index++) {
            struct end *end = events[index].data.ptr;
            if (end == NULL) {
                accept_client(server, words[2]);
            } else if (end->socket >= 0) {
                copy(end);
            }
        }
    }
}
