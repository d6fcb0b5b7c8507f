// Ports that were looked up once. Included by xmml.hpp.
#ifndef XMML_PORT_HPP
#define XMML_PORT_HPP

#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "instance.hpp"

namespace xmml {

// A port that was looked up once, by Instance::out or Instance::in: its calls are those of the instance, without the name. Good until the
// instance leaves; the instance must stay where it is.
class BoundPort {
public:
    const char* name() const noexcept { return name_; }

    bool connected(Site site = Site::here()) const { return me_->connected(name_, site); }
    std::uint32_t copies(Site site = Site::here()) const { return me_->copies(name_, site); }
    std::string methods(Site site = Site::here()) const { return me_->methods(name_, site); }
    void set_methods(Name methods, Site site = Site::here()) const { me_->set_methods(name_, methods, site); }

protected:
    BoundPort(Instance& me, const char* name) noexcept : me_(&me), name_(name) {}

    Instance* me_;
    const char* name_;
};

// An out port: auto pressure = me.out("pressure"); pressure.send(p);
class OutPort : public BoundPort {
public:
    bool send(const Sendable& data, Site site = Site::here()) const { return me_->send(name_, data, site); }
    bool send(const Sendable& data, double timestamp, Site site = Site::here()) const {
        return me_->send(name_, data, timestamp, site);
    }
    bool send(const Sendable& data, double timestamp, std::optional<double> next_timestamp,
              Site site = Site::here()) const {
        return me_->send(name_, data, timestamp, next_timestamp, site);
    }
    std::uint64_t put(const Sendable& data, const std::string& attributes = "", Site site = Site::here()) const {
        return me_->put(name_, data, attributes, site);
    }
    std::uint64_t wanted(const std::string& attributes = "", Site site = Site::here()) const {
        return me_->wanted(name_, attributes, site);
    }
    Group group(const std::string& attributes = "", Site site = Site::here()) const {
        return me_->group(name_, attributes, site);
    }
    void end(Site site = Site::here()) const { me_->end(name_, site); }
    bool send_to(std::uint32_t to, const Sendable& data, Site site = Site::here()) const {
        return me_->send_to(name_, to, data, site);
    }
    bool send_to(std::uint32_t to, const Sendable& data, double timestamp, Site site = Site::here()) const {
        return me_->send_to(name_, to, data, timestamp, site);
    }
    bool send_to(std::uint32_t to, const Sendable& data, double timestamp, std::optional<double> next_timestamp,
                 Site site = Site::here()) const {
        return me_->send_to(name_, to, data, timestamp, next_timestamp, site);
    }
    void skip(Site site = Site::here()) const { me_->skip(name_, site); }

    std::uint32_t open(const Sendable& handle, Site site = Site::here()) const {
        return me_->open(name_, handle, site);
    }
    void close(Site site = Site::here()) const { me_->close(name_, site); }
    void close(std::uint32_t number, Site site = Site::here()) const { me_->close(name_, number, site); }

    std::vector<Message> outputs(Site site = Site::here()) const { return me_->outputs(name_, site); }

protected:
    friend class Instance;
    OutPort(Instance& me, const char* name) noexcept : BoundPort(me, name) {}
};

// An in port: auto velocity = me.in("velocity"); velocity.receive();
class InPort : public BoundPort {
public:
    Message receive(Site site = Site::here()) const { return me_->receive(name_, site); }
    Message receive_of(std::uint32_t of, Site site = Site::here()) const { return me_->receive_of(name_, of, site); }
    std::vector<Message> receive_all(Site site = Site::here()) const { return me_->receive_all(name_, site); }
    std::optional<Message> receive_or_end(Site site = Site::here()) const { return me_->receive_or_end(name_, site); }
    std::optional<Message> receive_or_end_of(std::uint32_t of, Site site = Site::here()) const {
        return me_->receive_or_end_of(name_, of, site);
    }
    std::optional<Message> receive_for(std::chrono::duration<double> timeout, Site site = Site::here()) const {
        return me_->receive_for(name_, timeout, site);
    }
    std::optional<Message> receive_for_of(std::uint32_t of, std::chrono::duration<double> timeout,
                                          Site site = Site::here()) const {
        return me_->receive_for_of(name_, of, timeout, site);
    }
    Messages messages(Site site = Site::here()) const;
    std::optional<Message> take(Site site = Site::here()) const { return me_->take(name_, site); }
    std::optional<Message> take_for(std::chrono::duration<double> timeout, Site site = Site::here()) const {
        return me_->take_for(name_, timeout, site);
    }
    bool has_message(Site site = Site::here()) const { return me_->has_message(name_, site); }
    bool has_message_of(std::uint32_t of, Site site = Site::here()) const {
        return me_->has_message_of(name_, of, site);
    }

    Value handle(std::uint32_t holders = 1, Name methods = "", Site site = Site::here()) const {
        return me_->handle(name_, holders, methods, site);
    }
    void on_message(std::function<void(Message)> callback, Site site = Site::here()) const {
        me_->on_message(name_, std::move(callback), site);
    }

protected:
    friend class Instance;
    InPort(Instance& me, const char* name) noexcept : BoundPort(me, name) {}
};

// The messages of a port until its sender ends.
class Messages {
public:
    struct End {};

    class Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Message;
        using difference_type = std::ptrdiff_t;
        using pointer = const Message*;
        using reference = const Message&;

        explicit Iterator(const Messages& messages) : messages_(&messages) { ++*this; }
        const Message& operator*() const noexcept { return *message_; }
        const Message* operator->() const noexcept { return &*message_; }
        Iterator& operator++() {
            message_.reset();  // its memory may serve the next one
            message_ = messages_->port_.receive_or_end(messages_->site_);
            return *this;
        }
        bool operator!=(End) const noexcept { return message_.has_value(); }
        bool operator==(End) const noexcept { return !message_.has_value(); }

    private:
        const Messages* messages_;
        std::optional<Message> message_;
    };

    Messages(InPort port, Site site) noexcept : port_(port), site_(site) {}
    Iterator begin() const { return Iterator(*this); }
    End end() const noexcept { return {}; }

private:
    InPort port_;
    Site site_;
};

inline Messages InPort::messages(Site site) const { return {*this, site}; }
inline Messages Instance::messages(Name port, Site site) { return in(port, site).messages(site); }
inline OutPort Instance::out(Name port, Site site) { return {*this, bound(xmml_bind_out, port, site)}; }
inline InPort Instance::in(Name port, Site site) { return {*this, bound(xmml_bind_in, port, site)}; }

}  // namespace xmml

#endif
