// Only the transfer: a record of twelve attributes and a payload goes from one process to another, by a Unix socket, by
// tcp, by slots in shared memory, or by files. Who writes knows what its reader wants.
//
// pool_floor socket | tcp | shared | files FOLDER
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>

#include "ends.hpp"

namespace {

using bench::check;

struct Attributes {
    char type[24];
    int64_t date, step;
    int32_t time, level, number, param;
};

Attributes attributes_of(int number, long index) {
    return {"od enfo fc 0001 g pl",
            20261127,
            index,
            1200,
            static_cast<int32_t>(1 + index % 137),
            number,
            static_cast<int32_t>(index % bench::PARAMS)};
}

bool is_wanted(const Attributes& of) { return of.param < bench::WANTED; }

const std::size_t PAYLOAD_B = static_cast<std::size_t>(bench::SIZE_B), RECORD_B = sizeof(Attributes) + PAYLOAD_B;

// Records in a row on a socket. Small ones are gathered, unless each is to be flushed.
class Stream {
public:
    Stream(int from, int to) : from(from), to(to) {}

    void write(int number) {
        bench::write(
            [&](long index, const double* field) {
                const Attributes attributes = attributes_of(number, index);
                if (!is_wanted(attributes)) return;
                if (bench::IS_FLUSHED || RECORD_B > sizeof room / 2) {
                    send(attributes, field);
                    return;
                }
                if (filled + RECORD_B > sizeof room) flush();
                std::memcpy(room + filled, &attributes, sizeof attributes);
                std::memcpy(room + filled + sizeof attributes, field, PAYLOAD_B);
                filled += RECORD_B;
            },
            [&] { flush(); });
    }

    void read() {
        std::vector<char> large(std::max(RECORD_B, sizeof room));
        std::size_t begin = 0;
        bench::read([&](auto look) {
            while (filled - begin < RECORD_B) {
                std::memmove(large.data(), large.data() + begin, filled - begin);
                filled -= begin;
                begin = 0;
                const ssize_t got = ::read(from, large.data() + filled, large.size() - filled);
                check(got > 0, "read");
                filled += static_cast<std::size_t>(got);
            }
            Attributes attributes;
            std::memcpy(&attributes, large.data() + begin, sizeof attributes);
            look(attributes.step, reinterpret_cast<const double*>(large.data() + begin + sizeof attributes));
            begin += RECORD_B;
        });
    }

private:
    void flush() {
        for (std::size_t sent = 0; sent < filled;) {
            const ssize_t some = ::write(to, room + sent, filled - sent);
            check(some > 0, "write");
            sent += static_cast<std::size_t>(some);
        }
        filled = 0;
    }

    void send(Attributes attributes, const double* field) {
        iovec parts[2] = {{&attributes, sizeof attributes}, {const_cast<double*>(field), PAYLOAD_B}};
        for (iovec* part = parts; part < parts + 2;) {
            ssize_t some = writev(to, part, static_cast<int>(parts + 2 - part));
            check(some > 0, "write");
            for (; part < parts + 2 && static_cast<std::size_t>(some) >= part->iov_len; part++)
                some -= static_cast<ssize_t>(part->iov_len);
            if (part < parts + 2) {
                part->iov_base = static_cast<char*>(part->iov_base) + some;
                part->iov_len -= static_cast<std::size_t>(some);
            }
        }
    }

    int from, to;
    std::size_t filled = 0;
    char room[1 << 16];
};

// Slots in memory that both see. A payload is copied into a slot, and read or copied out of it.
class Slots {
public:
    Slots() {
        void* memory =
            mmap(nullptr, sizeof(Shared) + SLOTS * slot_b(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        check(memory != MAP_FAILED, "mmap");
        shared = static_cast<Shared*>(memory);
        check(sem_init(&shared->free, 1, SLOTS) == 0 && sem_init(&shared->full, 1, 0) == 0, "sem_init");
    }

    void write(int number) {
        std::size_t next = 0;
        bench::write(
            [&](long index, const double* field) {
                const Attributes attributes = attributes_of(number, index);
                if (!is_wanted(attributes)) return;
                while (sem_wait(&shared->free) != 0) continue;
                char* slot = slot_at(next++);
                std::memcpy(slot, &attributes, sizeof attributes);
                std::memcpy(slot + sizeof attributes, field, PAYLOAD_B);
                sem_post(&shared->full);
            },
            [] {});
    }

    void read() {
        std::size_t next = 0;
        bench::read([&](auto look) {
            while (sem_wait(&shared->full) != 0) continue;
            const char* slot = slot_at(next++);
            look(reinterpret_cast<const Attributes*>(slot)->step,
                 reinterpret_cast<const double*>(slot + sizeof(Attributes)));
            sem_post(&shared->free);
        });
    }

private:
    static constexpr std::size_t SLOTS = 4;
    struct alignas(64) Shared {
        sem_t free, full;
    };

    static std::size_t slot_b() { return (RECORD_B + 4095) / 4096 * 4096; }
    char* slot_at(std::size_t number) { return reinterpret_cast<char*>(shared + 1) + number % SLOTS * slot_b(); }

    Shared* shared;
};

// A file for each object: written, renamed, found by looking through the folder, read, removed.
class Files {
public:
    explicit Files(std::string folder) : folder(std::move(folder)) {
        check(mkdir(this->folder.c_str(), 0700) == 0, "mkdir");
    }

    void write(int number) {
        bench::write(
            [&](long index, const double* field) {
                const Attributes attributes = attributes_of(number, index);
                if (!is_wanted(attributes)) return;
                char name[32];
                std::snprintf(name, sizeof name, "/%012ld", written++);
                const std::string path = folder + name, hidden = folder + "/.new";
                std::FILE* file = std::fopen(hidden.c_str(), "wb");
                check(file && std::fwrite(&attributes, sizeof attributes, 1, file) == 1 &&
                          std::fwrite(field, PAYLOAD_B, 1, file) == 1 && std::fclose(file) == 0,
                      "write");
                check(std::rename(hidden.c_str(), path.c_str()) == 0, "rename");
            },
            [] {});
    }

    void read() {
        std::vector<std::string> found;
        std::vector<double> field(bench::ELEMENTS);
        bench::read([&](auto look) {
            while (found.empty()) {
                found = visible();
                if (found.empty()) usleep(POLL_US);
            }
            const std::string path = folder + "/" + found.back();
            found.pop_back();
            Attributes attributes;
            std::FILE* file = std::fopen(path.c_str(), "rb");
            check(file && std::fread(&attributes, sizeof attributes, 1, file) == 1 &&
                      std::fread(field.data(), PAYLOAD_B, 1, file) == 1 && std::fclose(file) == 0,
                  "read");
            look(attributes.step, field.data());
            check(unlink(path.c_str()) == 0, "unlink");
        });
    }

private:
    static constexpr useconds_t POLL_US = 1000;

    // The oldest is the last.
    std::vector<std::string> visible() const {
        std::vector<std::string> names;
        DIR* open = opendir(folder.c_str());
        check(open != nullptr, "opendir");
        while (const dirent* entry = readdir(open))
            if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
        closedir(open);
        std::sort(names.rbegin(), names.rend());
        return names;
    }

    std::string folder;
    long written = 0;
};

void connect_by_tcp(int (&ends)[2]) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    const int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    check(bind(listener, any, size) == 0 && listen(listener, 1) == 0 && getsockname(listener, any, &size) == 0, "bind");
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(ends[1], any, size) == 0, "connect");
    ends[0] = accept(listener, nullptr, nullptr);
    check(ends[0] >= 0 && setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "accept");
    close(listener);
}

template <typename Way>
void start(Way way, int number) {
    for (const bool is_writer : {true, false}) {
        const pid_t child = fork();
        check(child >= 0, "fork");
        if (child > 0) continue;
        if (is_writer) way.write(number);
        if (!is_writer) way.read();
        std::_Exit(0);
    }
}

}  // namespace

int main(int count, char** words) {
    const std::string way = count > 1 ? words[1] : "";
    for (int number = 0; number < bench::PAIRS; number++) {
        int ends[2];
        if (way == "shared") {
            start(Slots(), number);
        } else if (way == "files") {
            start(Files(std::string(count > 2 ? words[2] : ".") + "/pair" + std::to_string(number)), number);
        } else {
            if (way == "tcp") connect_by_tcp(ends);
            if (way != "tcp") check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
            start(Stream(ends[0], ends[1]), number);
        }
    }
    int status, is_bad = 0;
    while (wait(&status) > 0) is_bad |= status;
    return is_bad != 0;
}
