// Paths for C++: several TCP streams between two programs that behave as one channel for messages (see xmml_path.h and
// docs/wide-area.md). What goes wrong is an exception of xmml::Error; times to wait are in seconds, a negative one is without end.
#ifndef XMML_PATH_HPP
#define XMML_PATH_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xmml/error.hpp"
// Behind error.hpp, which decides about call sites.
#include <xmml_path.h>

namespace xmml {

// Each lane is in order; what is on the control lane never waits behind bulk.
enum class Lane { control = XMML_PATH_CONTROL, bulk = XMML_PATH_BULK };

// Who an end is. `credentials_file` and `trusted` (fingerprints) are for encrypted paths.
struct PathIdentity {
    std::string run;
    std::string name;
    std::string secret_file;
    std::string credentials_file = {};
    std::vector<std::string> trusted = {};
};

// What can be set: see xmml_path.h. A default one leaves everything to be found out.
struct PathSettings : xmml_path_settings {
    PathSettings() noexcept { xmml_path_settings_init(this); }
};

// A received message; its bytes live as long as it.
class PathMessage {
public:
    explicit PathMessage(xmml_path_message* message) noexcept : message_(message) {}
    PathMessage(PathMessage&& other) noexcept : message_(std::exchange(other.message_, nullptr)) {}
    PathMessage& operator=(PathMessage&& other) noexcept {
        std::swap(message_, other.message_);
        return *this;
    }
    ~PathMessage() {
        if (message_ != nullptr) xmml_path_message_free(&message_);
    }

    const std::byte* data() const noexcept { return static_cast<const std::byte*>(xmml_path_message_data(message_)); }
    std::size_t size() const noexcept { return xmml_path_message_size(message_); }
    const std::byte* begin() const noexcept { return data(); }
    const std::byte* end() const noexcept { return data() + size(); }
    std::string text() const { return {reinterpret_cast<const char*>(data()), size()}; }

private:
    xmml_path_message* message_;
};

namespace detail {

// The identity as C sees it; lives as long as what it was made of.
class CIdentity {
public:
    explicit CIdentity(const PathIdentity& me) {
        for (const std::string& fingerprint : me.trusted) trusted_.push_back(fingerprint.c_str());
        identity_ = {me.run.c_str(),         me.name.c_str(),
                     me.secret_file.c_str(), me.credentials_file.empty() ? nullptr : me.credentials_file.c_str(),
                     trusted_.data(),        trusted_.size()};
    }
    const xmml_path_identity* get() const noexcept { return &identity_; }

private:
    std::vector<const char*> trusted_;
    xmml_path_identity identity_;
};

constexpr xmml_path_lane code(Lane lane) noexcept { return static_cast<xmml_path_lane>(lane); }

}  // namespace detail

// One end of a path. Destroying it gives the path up; close() ends it in order.
class Path {
public:
    // Opens a path to the program `peer` that listens at `address`, "host:port", and may start later.
    static Path dial(const std::string& address, const PathIdentity& me, const std::string& peer,
                     const PathSettings& settings = {}, double timeout_s = 30, Site site = Site::here()) {
        xmml_path* path = nullptr;
        const detail::CIdentity identity(me);
        in_time(detail::call(site, xmml_path_dial, &path, address.c_str(), identity.get(), peer.c_str(), &settings,
                             timeout_s));
        return Path(path);
    }

    explicit Path(xmml_path* path) noexcept : path_(path) {}
    Path(Path&& other) noexcept : path_(std::exchange(other.path_, nullptr)) {}
    Path& operator=(Path&& other) noexcept {
        std::swap(path_, other.path_);
        return *this;
    }
    ~Path() {
        if (path_ != nullptr) xmml_path_free(&path_);
    }

    // Sends bytes that may change when this returns. False: there was no room in time.
    bool send(const void* data, std::size_t size, Lane lane = Lane::bulk, double timeout_s = -1,
              Site site = Site::here()) {
        return detail::call(site, xmml_path_send, path_, detail::code(lane), data, size, timeout_s) == XMML_OK;
    }

    // The same for anything with data() and size(), such as vectors, arrays and strings.
    template <class Container>
    bool send(const Container& values, Lane lane = Lane::bulk, double timeout_s = -1, Site site = Site::here()) {
        return send(values.data(), values.size() * sizeof(*values.data()), lane, timeout_s, site);
    }

    // Sends a copy without waiting; the ticket is for arrived().
    std::uint64_t post(const void* data, std::size_t size, Lane lane = Lane::bulk, Site site = Site::here()) {
        std::uint64_t ticket = 0;
        detail::call(site, xmml_path_post, path_, detail::code(lane), data, size, &ticket);
        return ticket;
    }

    // Whether the other end has what was posted; waits for it.
    bool arrived(std::uint64_t ticket, double timeout_s = 0, Site site = Site::here()) {
        return detail::call(site, xmml_path_wait, path_, ticket, timeout_s) == XMML_OK;
    }

    // Whether the other end has everything; waits for it.
    bool flush(double timeout_s = -1, Site site = Site::here()) {
        return detail::call(site, xmml_path_flush, path_, timeout_s) == XMML_OK;
    }

    // The next message; nothing once the other end has finished. A time that passes is an exception.
    std::optional<PathMessage> receive(Lane lane = Lane::bulk, double timeout_s = -1, Site site = Site::here()) {
        xmml_path_message* message = nullptr;
        const auto status = detail::call(site, xmml_path_receive, path_, detail::code(lane), &message, timeout_s);
        return taken(status, message);
    }

    // The next message if it has come.
    std::optional<PathMessage> take(Lane lane = Lane::bulk, Site site = Site::here()) {
        xmml_path_message* message = nullptr;
        detail::call(site, xmml_path_receive, path_, detail::code(lane), &message, 0.0);
        return message == nullptr ? std::nullopt : std::optional<PathMessage>(PathMessage(message));
    }

    // Sends one message and receives one; both travel at once.
    std::optional<PathMessage> send_receive(const void* data, std::size_t size, Lane lane = Lane::bulk,
                                            double timeout_s = -1, Site site = Site::here()) {
        return cycle(*this, data, size, lane, timeout_s, site);
    }

    // Sends on this path and receives from another.
    std::optional<PathMessage> cycle(Path& from, const void* data, std::size_t size, Lane lane = Lane::bulk,
                                     double timeout_s = -1, Site site = Site::here()) {
        xmml_path_message* message = nullptr;
        const auto status =
            detail::call(site, xmml_path_cycle, path_, from.path_, detail::code(lane), data, size, &message, timeout_s);
        return taken(status, message);
    }

    // Whether both ends have come here; waits for it.
    bool barrier(double timeout_s = -1, Site site = Site::here()) {
        return detail::call(site, xmml_path_barrier, path_, timeout_s) == XMML_OK;
    }

    // Passes everything on between this path and another until both have ended. If one fails, both are given up, and the
    // error says how much is not known to have come through. Open both with `relays = 1`: then nothing of that has
    // arrived for those who sent it.
    void relay(Path& other, Site site = Site::here()) { detail::call(site, xmml_path_relay, path_, other.path_); }

    // Other settings from now on, all of them: what these leave out becomes what is usual.
    void set(const PathSettings& settings, Site site = Site::here()) {
        detail::call(site, xmml_path_set, path_, &settings);
    }

    xmml_path_stats stats(Site site = Site::here()) const {
        xmml_path_stats stats{};
        detail::call(site, xmml_path_get_stats, path_, &stats);
        return stats;
    }

    // For event loops: see xmml_path.h.
    int fd() const noexcept { return xmml_path_fd(path_); }
    void drive(Site site = Site::here()) { detail::call(site, xmml_path_drive, path_); }

    // This end sends nothing more.
    void finish(Site site = Site::here()) { detail::call(site, xmml_path_finish, path_); }

    // Ends the path in order. False: the other end has not in time; the path is given up then.
    bool close(double timeout_s = 30, Site site = Site::here()) {
        return detail::call(site, xmml_path_close, &path_, timeout_s) == XMML_OK;
    }

    xmml_path* get() const noexcept { return path_; }

private:
    static void in_time(xmml_status status) {
        if (status == XMML_TIMED_OUT) throw Error(status, xmml_error());
    }

    static std::optional<PathMessage> taken(xmml_status status, xmml_path_message* message) {
        in_time(status);
        if (status == XMML_ENDED) return std::nullopt;
        return PathMessage(message);
    }

    xmml_path* path_;
};

// Sends each path its part, on all of them at once. On none if one has no room in this time, which is an exception.
template <class Container>
void scatter(const std::vector<Path*>& paths, const std::vector<Container>& parts, Lane lane = Lane::bulk,
             double timeout_s = -1, Site site = Site::here()) {
    if (paths.size() != parts.size()) throw UsageError(XMML_ERROR_USAGE, "as many parts as paths are needed");
    std::vector<xmml_path*> ends;
    std::vector<const void*> data;
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < paths.size(); ++at) {
        ends.push_back(paths[at]->get());
        data.push_back(parts[at].data());
        sizes.push_back(parts[at].size() * sizeof(*parts[at].data()));
    }
    const auto status = detail::call(site, xmml_path_scatter, ends.data(), ends.size(), detail::code(lane), data.data(),
                                     sizes.data(), timeout_s);
    if (status == XMML_TIMED_OUT) throw Error(status, xmml_error());
}

// Receives one message of each path, in their order. None is taken before all have come. A time that passes is an exception.
inline std::vector<PathMessage> gather(const std::vector<Path*>& paths, Lane lane = Lane::bulk, double timeout_s = -1,
                                       Site site = Site::here()) {
    std::vector<xmml_path*> ends;
    for (const Path* path : paths) ends.push_back(path->get());
    std::vector<xmml_path_message*> messages(paths.size());
    const auto status =
        detail::call(site, xmml_path_gather, ends.data(), ends.size(), detail::code(lane), messages.data(), timeout_s);
    if (status == XMML_TIMED_OUT) throw Error(status, xmml_error());
    std::vector<PathMessage> parts;
    for (xmml_path_message* message : messages) parts.emplace_back(message);
    return parts;
}

// Where paths come in.
class PathListener {
public:
    PathListener(const std::string& address, const PathIdentity& me, const PathSettings& settings = {},
                 Site site = Site::here()) {
        const detail::CIdentity identity(me);
        detail::call(site, xmml_path_listen, &listener_, address.c_str(), identity.get(), &settings);
    }
    PathListener(PathListener&& other) noexcept : listener_(std::exchange(other.listener_, nullptr)) {}
    PathListener& operator=(PathListener&& other) noexcept {
        std::swap(listener_, other.listener_);
        return *this;
    }
    ~PathListener() {
        if (listener_ != nullptr) xmml_path_listener_close(&listener_);
    }

    // "host:port".
    std::string address() const { return xmml_path_listener_address(listener_); }

    // The next path; nothing if nobody dials in time.
    std::optional<Path> accept(double timeout_s = -1, Site site = Site::here()) {
        xmml_path* path = nullptr;
        detail::call(site, xmml_path_accept, listener_, &path, timeout_s);
        return path == nullptr ? std::nullopt : std::optional<Path>(Path(path));
    }

private:
    xmml_path_listener* listener_ = nullptr;
};

// Writes a new key and certificate to a new file; the fingerprint is for the other end.
inline std::string make_credentials(const std::string& file, const std::string& name, double seconds,
                                    Site site = Site::here()) {
    char fingerprint[65];
    detail::call(site, xmml_path_make_credentials, file.c_str(), name.c_str(), seconds, fingerprint);
    return fingerprint;
}

}  // namespace xmml

#endif
