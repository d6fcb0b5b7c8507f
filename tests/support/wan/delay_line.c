/* The wide area between the machines of the emulated network: a router in user space with one interface at each site.
 *
 *   delay_line OWNER MTU SEED PID...     makes an interface wan0 in the network of each process and says "ready"
 *
 * Site i (from 1) has the address 10.77.i.1. What one site sends to another waits in a queue of its own, leaves it at the rate of
 * that direction and arrives after its delay; it may be lost, held or cut off. Commands come as lines on standard input, each is
 * answered by a line ("ok ..." or "error ..."):
 *
 *   set FROM TO DELAY_NS RATE_BIT_S LOSS QUEUE_B    rate 0: unlimited; loss: a fraction; queue: bytes that wait at most
 *   open FROM TO | cut FROM TO | stall FROM TO      cut: everything is dropped, also what is on its way; stall: it is held
 *   flow FROM TO PORT cut|open                      drops what has this TCP port at either end, the rest passes
 *   figures FROM TO                                 ok PACKETS BYTES LOST OVERFLOWED CUT MOST_QUEUED_B MEAN_LATE_NS MOST_LATE_NS
 *   clear FROM TO                                   the figures begin anew
 *
 * It ends with its standard input or with the process OWNER.
 *
 * The kernel hands over TCP in units of up to 64 KiB, as it does to a network card, and takes them so: one packet at a time is too slow
 * for a link of 1 Gbit/s on a machine that also runs both ends. Rate, loss and room in the queue are nevertheless
 * reckoned by packet: a unit of which some packets are lost is taken apart around them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_SITES 16
#define MOST_FLOWS 64
#define MOST_UNIT (sizeof(struct virtio_net_hdr) + 65536)
/* Units taken from one interface before the others, and what is due, have their turn. */
#define BATCH 64
/* What may be on its way in one direction, whatever is asked for: memory is bounded. */
#define MOST_HELD_B (512ull << 20)

/* One packet, or several of one TCP connection that follow each other. */
typedef struct Unit {
    struct Unit *next;
    int64_t due_ns;
    uint32_t packets;
    uint32_t wire_b; /* of all its packets with their headers */
    uint32_t size;
    unsigned char data[]; /* a virtio_net_hdr, then the unit */
} Unit;

enum state { OPEN, CUT, STALLED };

/* One direction between two sites. */
typedef struct {
    int64_t delay_ns;
    double ns_per_byte;
    uint64_t loss; /* of 2^64 */
    uint64_t most_queued_b;
    enum state state;
    uint16_t flows[MOST_FLOWS];
    int flow_count;

    Unit *first, *last;
    uint64_t held_b;
    uint64_t stalled_b;
    Unit *first_stalled;
    int64_t free_ns; /* when the last packet has left the queue */
    int64_t last_due_ns;

    uint64_t packets, bytes, lost, overflowed, dropped_by_cut, most_seen_queued_b;
    int64_t late_ns, most_late_ns;
} Direction;

static Direction directions[MOST_SITES][MOST_SITES];
static int interfaces[MOST_SITES];
static int sites;
static uint64_t random_state;

static void fail(const char *what) {
    fprintf(stderr, "delay_line: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* splitmix64 */
static uint64_t random_bits(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* When a packet that comes at `now` will arrive; the queue is emptied at the rate. */
static int64_t arrival(Direction *d, uint32_t size, int64_t now) {
    int64_t begin = d->free_ns > now ? d->free_ns : now;
    d->free_ns = begin + (int64_t)(size * d->ns_per_byte);
    int64_t due = d->free_ns + d->delay_ns;
    /* A delay that shrinks does not reorder. */
    d->last_due_ns = due > d->last_due_ns ? due : d->last_due_ns;
    return d->last_due_ns;
}

static void forget(Direction *d) {
    for (Unit *u = d->first; u;) {
        Unit *next = u->next;
        d->dropped_by_cut += u->packets;
        free(u);
        u = next;
    }
    d->first = d->last = d->first_stalled = NULL;
    d->held_b = d->stalled_b = 0;
    d->free_ns = d->last_due_ns = 0;
}

static void go_on(Direction *d, int64_t now) {
    for (Unit *u = d->first_stalled; u; u = u->next)
        u->due_ns = arrival(d, u->wire_b, now);
    d->first_stalled = NULL;
    d->stalled_b = 0;
}

static uint32_t sum16(const unsigned char *data, uint32_t size, uint32_t sum) {
    for (uint32_t i = 0; i + 1 < size; i += 2)
        sum += (uint32_t)(data[i] << 8 | data[i + 1]);
    return sum;
}

static uint16_t folded(uint32_t sum) {
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static void put16(unsigned char *at, uint32_t value) {
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static uint32_t get32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* What a unit is made of. Only TCP comes as more than one packet. */
typedef struct {
    uint32_t head;    /* bytes of its IP and TCP headers */
    uint32_t payload; /* bytes behind them */
    uint32_t most;    /* bytes of payload in each packet but the last */
    uint32_t packets;
} Parts;

static Parts parts_of(const struct virtio_net_hdr *unit, const unsigned char *ip, uint32_t size) {
    Parts p = {.head = size, .payload = 0, .most = 0, .packets = 1};
    uint32_t ip_head = (ip[0] & 15u) * 4;
    if ((unit->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) != VIRTIO_NET_HDR_GSO_TCPV4 || unit->gso_size == 0 || size < ip_head + 20)
        return p;
    uint32_t head = ip_head + (ip[ip_head + 12] >> 4) * 4u;
    if (head >= size)
        return p;
    p = (Parts){.head = head, .payload = size - head, .most = unit->gso_size};
    p.packets = (p.payload + p.most - 1) / p.most;
    return p;
}

/* A unit of the packets from `first` up to, without, `end` of another. */
static Unit *excerpt(const unsigned char *data, uint32_t size, const Parts *parts, uint32_t first, uint32_t end) {
    const uint32_t outer = sizeof(struct virtio_net_hdr);
    uint32_t from = first * parts->most;
    uint32_t payload = end == parts->packets ? parts->payload - from : (end - first) * parts->most;
    Unit *u = malloc(sizeof *u + outer + parts->head + payload);
    if (!u)
        fail("memory");
    u->next = NULL;
    u->due_ns = INT64_MAX;
    u->packets = end - first;
    u->size = outer + parts->head + payload;
    u->wire_b = payload + u->packets * parts->head;
    if (u->packets == parts->packets) {
        memcpy(u->data, data, size);
        return u;
    }
    memcpy(u->data, data, outer + parts->head);
    memcpy(u->data + outer + parts->head, data + outer + parts->head + from, payload);
    struct virtio_net_hdr unit;
    memcpy(&unit, u->data, outer);
    if (u->packets == 1) {
        unit.gso_type = VIRTIO_NET_HDR_GSO_NONE;
        unit.gso_size = 0;
    }
    memcpy(u->data, &unit, outer);

    unsigned char *ip = u->data + outer;
    uint32_t ip_head = (ip[0] & 15u) * 4;
    unsigned char *tcp = ip + ip_head;
    put16(ip + 2, parts->head + payload);
    put16(ip + 4, (uint32_t)(ip[4] << 8 | ip[5]) + first);
    put16(ip + 10, 0);
    put16(ip + 10, (uint16_t)~folded(sum16(ip, ip_head, 0)));
    uint32_t sequence = get32(tcp + 4) + from;
    put16(tcp + 4, sequence >> 16);
    put16(tcp + 6, sequence & 0xffff);
    if (end < parts->packets)
        tcp[13] &= (unsigned char)~0x09; /* FIN and PSH belong to the last packet */
    if (first > 0)
        tcp[13] &= (unsigned char)~0x80; /* CWR to the first */
    /* The sum over the data is left to whoever takes it; that over addresses, protocol and length stands already. */
    uint32_t tcp_b = parts->head - ip_head + payload;
    put16(tcp + 16, folded(sum16(ip + 12, 8, 6 + tcp_b)));
    return u;
}

static int of_cut_flow(const Direction *d, const unsigned char *ip, uint32_t size) {
    uint32_t head = (ip[0] & 15u) * 4;
    if (ip[9] != 6 || size < head + 4)
        return 0;
    uint16_t from = (uint16_t)(ip[head] << 8 | ip[head + 1]);
    uint16_t to = (uint16_t)(ip[head + 2] << 8 | ip[head + 3]);
    for (int i = 0; i < d->flow_count; i++)
        if (d->flows[i] == from || d->flows[i] == to)
            return 1;
    return 0;
}

/* Bytes that wait in the queue. */
static uint64_t queued(const Direction *d, int64_t now) {
    uint64_t waiting = d->stalled_b;
    if (d->ns_per_byte > 0 && d->free_ns > now)
        waiting += (uint64_t)((double)(d->free_ns - now) / d->ns_per_byte);
    return waiting;
}

static void append(Direction *d, Unit *u, int64_t now) {
    if (d->last)
        d->last->next = u;
    else
        d->first = u;
    d->last = u;
    d->held_b += u->size;
    if (d->state == STALLED) {
        d->stalled_b += u->wire_b;
        if (!d->first_stalled)
            d->first_stalled = u;
    } else {
        u->due_ns = arrival(d, u->wire_b, now);
    }
    uint64_t waiting = queued(d, now);
    if (waiting > d->most_seen_queued_b)
        d->most_seen_queued_b = waiting;
}

/* Packets of a unit, one after the other: does this one get into the queue, behind `before` bytes of the same unit? */
static int admitted(Direction *d, uint64_t waiting, uint32_t before, uint32_t packet_b) {
    if (d->loss && random_bits() < d->loss) {
        d->lost++;
        return 0;
    }
    if (waiting + before + packet_b > d->most_queued_b || d->held_b + before + packet_b > MOST_HELD_B) {
        d->overflowed++;
        return 0;
    }
    return 1;
}

static void take(int from, const unsigned char *data, uint32_t size, int64_t now) {
    const uint32_t outer = sizeof(struct virtio_net_hdr);
    const unsigned char *ip = data + outer;
    if (size < outer + 20 || ip[0] >> 4 != 4 || ip[16] != 10 || ip[17] != 77)
        return;
    int to = ip[18] - 1;
    if (to < 0 || to >= sites || to == from)
        return;
    struct virtio_net_hdr unit;
    memcpy(&unit, data, outer);
    Parts parts = parts_of(&unit, ip, size - outer);
    Direction *d = &directions[from][to];
    if (d->state == CUT || (d->flow_count && of_cut_flow(d, ip, size - outer))) {
        d->dropped_by_cut += parts.packets;
        return;
    }
    uint32_t whole = parts.head + (parts.packets > 1 ? parts.most : parts.payload);
    uint32_t first = 0, end = 0;
    while (end < parts.packets) {
        if (admitted(d, queued(d, now), (end - first) * whole, whole)) {
            end++;
            continue;
        }
        if (first < end)
            append(d, excerpt(data, size, &parts, first, end), now);
        first = ++end;
    }
    if (first < end)
        append(d, excerpt(data, size, &parts, first, end), now);
}

/* Hands over what is due; returns when the next packet will be. */
static int64_t deliver(void) {
    int64_t next = INT64_MAX;
    for (int from = 0; from < sites; from++)
        for (int to = 0; to < sites; to++) {
            Direction *d = &directions[from][to];
            int64_t now = d->first ? now_ns() : 0;
            for (int i = 0; i < BATCH && d->first && d->first->due_ns <= now; i++) {
                Unit *u = d->first;
                /* A refusal is what a full interface does: the packet is gone. */
                if (write(interfaces[to], u->data, u->size) < 0 && errno == EBADFD)
                    exit(0);
                d->packets += u->packets;
                d->bytes += u->wire_b;
                d->late_ns += u->packets * (now - u->due_ns);
                if (now - u->due_ns > d->most_late_ns)
                    d->most_late_ns = now - u->due_ns;
                d->held_b -= u->size;
                d->first = u->next;
                if (!d->first)
                    d->last = NULL;
                free(u);
            }
            if (d->first && d->first->due_ns < next)
                next = d->first->due_ns;
        }
    return next;
}

static const char *obey(char *line, char *answer, size_t room) {
    char word[16], what[16];
    int from, to, port, read_up_to = 0;
    if (sscanf(line, "%15s %d %d%n", word, &from, &to, &read_up_to) != 3)
        return "error: COMMAND FROM TO ...";
    if (from < 1 || from > sites || to < 1 || to > sites || from == to)
        return "error: no such direction";
    Direction *d = &directions[from - 1][to - 1];
    const char *rest = line + read_up_to;
    if (strcmp(word, "set") == 0) {
        long long delay;
        double rate, loss, queue;
        if (sscanf(rest, "%lld %lf %lf %lf", &delay, &rate, &loss, &queue) != 4 || delay < 0 || rate < 0 || !(loss >= 0) || loss > 1 || queue < 0)
            return "error: set FROM TO DELAY_NS RATE_BIT_S LOSS QUEUE_B";
        d->delay_ns = delay;
        d->ns_per_byte = rate > 0 ? 8e9 / rate : 0;
        d->loss = loss >= 1 ? UINT64_MAX : (uint64_t)(loss * 18446744073709551616.0);
        d->most_queued_b = queue > 0 ? (uint64_t)queue : UINT64_MAX / 2;
    } else if (strcmp(word, "open") == 0) {
        d->state = OPEN;
        go_on(d, now_ns());
    } else if (strcmp(word, "cut") == 0) {
        d->state = CUT;
        forget(d);
    } else if (strcmp(word, "stall") == 0) {
        d->state = STALLED;
    } else if (strcmp(word, "flow") == 0) {
        if (sscanf(rest, "%d %15s", &port, what) != 2 || port < 1 || port > 65535)
            return "error: flow FROM TO PORT cut|open";
        int i = 0;
        while (i < d->flow_count && d->flows[i] != port)
            i++;
        if (strcmp(what, "cut") == 0) {
            if (i == MOST_FLOWS)
                return "error: too many flows are cut";
            d->flows[i] = (uint16_t)port;
            d->flow_count += i == d->flow_count;
        } else if (i < d->flow_count) {
            d->flows[i] = d->flows[--d->flow_count];
        }
    } else if (strcmp(word, "figures") == 0) {
        snprintf(answer, room, "ok %llu %llu %llu %llu %llu %llu %lld %lld", (unsigned long long)d->packets, (unsigned long long)d->bytes,
                 (unsigned long long)d->lost, (unsigned long long)d->overflowed, (unsigned long long)d->dropped_by_cut,
                 (unsigned long long)d->most_seen_queued_b, d->packets ? (long long)(d->late_ns / (int64_t)d->packets) : 0,
                 (long long)d->most_late_ns);
        return answer;
    } else if (strcmp(word, "clear") == 0) {
        d->packets = d->bytes = d->lost = d->overflowed = d->dropped_by_cut = d->most_seen_queued_b = 0;
        d->late_ns = d->most_late_ns = 0;
    } else {
        return "error: no such command";
    }
    return "ok";
}

/* Reads what has come on standard input; false at its end. */
static int listen_to_commands(void) {
    static char line[512];
    static size_t filled;
    ssize_t got = read(STDIN_FILENO, line + filled, sizeof line - 1 - filled);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    filled += (size_t)got;
    line[filled] = 0;
    for (char *end; (end = strchr(line, '\n'));) {
        char answer[256];
        *end = 0;
        puts(obey(line, answer, sizeof answer));
        filled -= (size_t)(end + 1 - line);
        memmove(line, end + 1, filled + 1);
    }
    fflush(stdout);
    return filled < sizeof line - 1;
}

static int make_interface(long pid, int mtu) {
    char path[64];
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%ld/ns/net", pid);
    int there = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0 || there < 0 || setns(there, CLONE_NEWNET) != 0)
        fail(path);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        fail("/dev/net/tun");
    struct ifreq request = {.ifr_name = "wan0", .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    if (ioctl(fd, TUNSETIFF, &request) != 0)
        fail("wan0");
    if (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0)
        fail("units of several packets on wan0");
    int helper = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_mtu = mtu;
    if (helper < 0 || ioctl(helper, SIOCSIFMTU, &request) != 0)
        fail("MTU of wan0");
    /* Packets that come while this program does not run. */
    request.ifr_qlen = 20000;
    if (ioctl(helper, SIOCSIFTXQLEN, &request) != 0)
        fail("queue of wan0");
    if (setns(home, CLONE_NEWNET) != 0)
        fail("coming home");
    close(helper);
    close(home);
    close(there);
    return fd;
}

int main(int argc, char **argv) {
    if (argc < 5 || argc - 4 > MOST_SITES) {
        fprintf(stderr, "delay_line OWNER MTU SEED PID... (at most %d)\n", MOST_SITES);
        return 2;
    }
    int owner = (int)syscall(SYS_pidfd_open, (pid_t)atol(argv[1]), 0);
    if (owner < 0)
        fail("owner");
    random_state = strtoull(argv[3], NULL, 10);
    sites = argc - 4;
    for (int i = 0; i < sites; i++)
        interfaces[i] = make_interface(atol(argv[4 + i]), atoi(argv[2]));
    /* Being late is the error of this instrument: ahead of others, and woken to the microsecond. */
    struct sched_param ahead = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_RR, &ahead) != 0)
        setpriority(PRIO_PROCESS, 0, -15);
    prctl(PR_SET_TIMERSLACK, 1000);
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    puts("ready");
    fflush(stdout);

    struct pollfd fds[MOST_SITES + 2];
    for (int i = 0; i < sites; i++)
        fds[i] = (struct pollfd){.fd = interfaces[i], .events = POLLIN};
    fds[sites] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    fds[sites + 1] = (struct pollfd){.fd = owner, .events = POLLIN};
    static unsigned char data[MOST_UNIT];
    for (;;) {
        int64_t next = deliver();
        struct timespec wait, *limit = NULL;
        if (next != INT64_MAX) {
            int64_t left = next - now_ns();
            left = left > 0 ? left : 0;
            wait = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
            limit = &wait;
        }
        if (ppoll(fds, (nfds_t)sites + 2, limit, NULL) < 0 && errno != EINTR)
            fail("poll");
        if (fds[sites + 1].revents || (fds[sites].revents && !listen_to_commands()))
            return 0;
        for (int i = 0; i < sites; i++) {
            if (fds[i].revents & (POLLERR | POLLHUP | POLLNVAL))
                return 0;
            for (int n = 0; n < BATCH && fds[i].revents & POLLIN; n++) {
                ssize_t size = read(interfaces[i], data, sizeof data);
                if (size <= 0)
                    break;
                take(i, data, (uint32_t)size, now_ns());
            }
        }
    }
}
