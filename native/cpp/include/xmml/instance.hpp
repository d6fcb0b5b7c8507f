// A program's membership of a run. Included by xmml.hpp.
#ifndef XMML_INSTANCE_HPP
#define XMML_INSTANCE_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "data.hpp"

namespace xmml {

// A name of a port or parameter: a text that ends with a 0 byte, not copied.
class Name {
public:
    Name(const char* name) noexcept : name_(name) {}
    Name(const std::string& name) noexcept : name_(name.c_str()) {}
    const char* c_str() const noexcept { return name_; }

private:
    const char* name_;
};

namespace detail {

// So that an exception that nobody catches reaches the run with its text: the stack is not unwound then, no destructor runs.
inline std::atomic<xmml_instance*> joined{nullptr};
inline std::terminate_handler previous_handler = nullptr;

// One line and no core file: nothing is wrong with this program.
[[noreturn]] inline void end_quietly(xmml_instance* me, const char* text) {
    // The run may be over before this program has joined it: then it knows its name from whoever started it.
    const char* name = me != nullptr ? xmml_name(me) : std::getenv("XMML_INSTANCE");
    if (name != nullptr) std::fprintf(stderr, "%s: ", name);
    std::fprintf(stderr, "%s\n", text);
    std::fflush(nullptr);
    std::_Exit(1);
}

inline void tell_and_terminate() {
    xmml_instance* me = joined.exchange(nullptr);
    try {
        if (std::exception_ptr exception = std::current_exception()) std::rethrow_exception(exception);
        if (me != nullptr) (xmml_fail)(me, "std::terminate was called");
    } catch (const RunAborted& aborted) {
        end_quietly(me, aborted.what());
    } catch (const NotInARunError& alone) {
        end_quietly(me, alone.what());
    } catch (const std::exception& exception) {
        if (me != nullptr) (xmml_fail)(me, exception.what());
    } catch (...) {
        if (me != nullptr) (xmml_fail)(me, "an exception that is no std::exception");
    }
    if (previous_handler != nullptr) previous_handler();
    std::abort();
}

// What a callback of this thread has thrown, on its way to the call in which it was called.
inline thread_local std::exception_ptr thrown;

inline void handle_termination() {
    static std::once_flag once;
    std::call_once(once, [] { previous_handler = std::set_terminate(tell_and_terminate); });
}

}  // namespace detail

// The iterations of a pass: for (double t : me.steps()).
class Steps {
public:
    struct End {};

    class Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = double;
        using difference_type = std::ptrdiff_t;
        using pointer = const double*;
        using reference = double;

        Iterator(xmml_instance* me, Site site) : me_(me), site_(site) { ++*this; }
        double operator*() const noexcept { return time_; }
        Iterator& operator++() {
            done_ = detail::call(site_, xmml_step, me_, &time_) == XMML_DONE;
            return *this;
        }
        bool operator!=(End) const noexcept { return !done_; }
        bool operator==(End) const noexcept { return done_; }

    private:
        xmml_instance* me_;
        Site site_;
        double time_ = 0;
        bool done_ = false;
    };

    Steps(xmml_instance* me, Site site) noexcept : me_(me), site_(site) {}
    Iterator begin() const { return Iterator(me_, site_); }
    End end() const noexcept { return {}; }

private:
    xmml_instance* me_;
    Site site_;
};

// A port that the model declares.
struct Port {
    std::string name;
    std::string operator_name;  // "finit", "Oi", "S", "B" or "Of"; empty on mappers and terminals
    bool is_out;                // whether it sends
};

class Group;
class InPort;
class Messages;
class OutPort;

// A program's membership of a run.
class Instance {
public:
    // Joins the run that this process was started for.
    explicit Instance(Site site = Site::here()) {
        detail::handle_termination();
        detail::call(site, xmml_join_as, &me_, "c++");
        detail::joined.store(me_);
    }

    Instance(Instance&& other) noexcept
        : me_(std::exchange(other.me_, nullptr)), exceptions_(other.exceptions_), kept_(std::move(other.kept_)) {
        if (kept_ != nullptr) kept_->instance = this;
    }
    Instance& operator=(Instance&&) = delete;

    // Leaves the run, or tells it that this instance failed if an exception is the reason.
    ~Instance() {
        if (me_ == nullptr) return;
        forget();
        if (std::uncaught_exceptions() > exceptions_) {
            const std::string error = kept_->last_error();
            (xmml_fail)(
                me_, error.empty() ? "an exception ended the program; its error output may say which" : error.c_str());
            xmml_instance_free(&me_);
        } else if ((xmml_leave)(&me_) < 0) {
            std::fprintf(stderr, "xmml: %s\n", xmml_error());
        }
    }

    // Leaves the run: everything sent is still delivered, then the partners learn that no more comes.
    void leave(Site site = Site::here()) {
        if (me_ == nullptr) return;
        forget();
        call(site, xmml_leave, &me_);
    }

    // Tells the run that this instance failed, and why; the run stops.
    void fail(const std::string& text, Site site = Site::here()) { call(site, xmml_fail, me_, text.c_str()); }

    // Tells people something, through the run's log and display.
    void warn(const std::string& text, Site site = Site::here()) { call(site, xmml_warn, me_, text.c_str()); }

    // Whether there is another pass to do; waits until that is known.
    bool reuse(Site site = Site::here()) {
        int again = 0;
        call(site, xmml_reuse, me_, &again);
        return again != 0;
    }

    // The iterations of this pass, as their model times.
    Steps steps(Site site = Site::here()) { return Steps(me_, site); }

    // Begins the next iteration by hand: its model time, or nothing after the last.
    std::optional<double> next_step(Site site = Site::here()) {
        double time = 0;
        if (call(site, xmml_step, me_, &time) == XMML_DONE) return std::nullopt;
        return time;
    }

    // The name in the model (copies: "c[3]"), the number among the copies from 0, and how many copies there are.
    std::string name() const { return xmml_name(me_); }
    std::uint32_t index() const noexcept { return xmml_index(me_); }
    std::uint32_t count() const noexcept { return xmml_count(me_); }

    // Model time of this iteration and of the beginning of this pass; length of a step and of a pass; all in seconds.
    double time() const noexcept { return xmml_time(me_); }
    double origin() const noexcept { return xmml_origin(me_); }
    double delta() const noexcept { return xmml_delta(me_); }
    double total() const noexcept { return xmml_total(me_); }

    // A scale of the model by its id ("x", ...): .delta, .total and .steps, in base units; 0 for what the model does not give.
    xmml_scale scale(Name name, Site site = Site::here()) {
        xmml_scale scale{};
        call(site, xmml_scale_of, me_, name.c_str(), &scale);
        return scale;
    }

    // A parameter: double, float, an integer type, bool or std::string; numbers are converted to `unit` if one is given.
    template <class T>
    T param(Name name, const char* unit = nullptr, Site site = Site::here()) {
        if constexpr (std::is_same_v<T, bool>) {
            int truth = 0;
            call(site, xmml_param_bool, me_, name.c_str(), &truth);
            return truth != 0;
        } else if constexpr (detail::is_integer<T>) {
            std::int64_t number = 0;
            call(site, xmml_param_int, me_, name.c_str(), unit, &number);
            try {
                return Value(number).data().as<T>(site);
            } catch (const TypeError& error) {
                throw ParameterError(XMML_ERROR_PARAMETER,
                                     this->name() + ": parameter \"" + name.c_str() + "\": " + error.what());
            }
        } else if constexpr (std::is_floating_point_v<T>) {
            double number = 0;
            call(site, xmml_param_double, me_, name.c_str(), unit, &number);
            return static_cast<T>(number);
        } else {
            static_assert(std::is_same_v<T, std::string>, "param<T>: bool, an integer, float, double, std::string");
            const char* text = nullptr;
            call(site, xmml_param_text, me_, name.c_str(), &text);
            return text;
        }
    }

    // The same, or `otherwise` if the model does not set it.
    template <class T>
    T param_or(Name name, T otherwise, const char* unit = nullptr, Site site = Site::here()) {
        return has_param(name) ? param<T>(name, unit, site) : otherwise;
    }
    bool has_param(Name name) const noexcept { return xmml_has_param(me_, name.c_str()) != 0; }

    // The names of the parameters that are set, in the order of the alphabet.
    std::vector<std::string> params() const {
        std::vector<std::string> names;
        for (std::size_t i = 0; i < xmml_param_count(me_); ++i) names.emplace_back(xmml_param_name(me_, i));
        return names;
    }

    // The ports that the model declares, in its order.
    std::vector<Port> ports() const {
        std::vector<Port> ports;
        xmml_port port{};
        while ((xmml_port_at)(me_, ports.size(), &port) == XMML_OK)
            ports.push_back({port.name, port.operator_name, port.is_out != 0});
        return ports;
    }

    // Looks a port up once: one that is misspelt, or of the other direction, is a PortError here. OutPort and InPort have the calls below
    // that such a port is for, without the name.
    OutPort out(Name port, Site site = Site::here());
    InPort in(Name port, Site site = Site::here());

    // Whether the port is coupled in this model (one that brings the state of the previous pass is not, during the first); how many
    // copies are at its other end; how its conduits travel.
    bool connected(Name port, Site site = Site::here()) {
        int yes = 0;
        call(site, xmml_connected, me_, port.c_str(), &yes);
        return yes != 0;
    }
    std::uint32_t copies(Name port, Site site = Site::here()) {
        std::uint32_t copies = 0;
        call(site, xmml_copies, me_, port.c_str(), &copies);
        return copies;
    }
    std::string methods(Name port, Site site = Site::here()) {
        const char* text = nullptr;
        call(site, xmml_methods, me_, port.c_str(), &text);
        return text;
    }

    // Allows these methods on every conduit of the port from now on, separated by commas, in this order ("shm,tcp"; "": all, fastest
    // first), also while messages pass.
    void set_methods(Name port, Name methods, Site site = Site::here()) {
        call(site, xmml_set_methods, me_, port.c_str(), methods.c_str());
    }

    // Declares that nothing is sent on this out port in this iteration (O_i) or run (O_f).
    void skip(Name port, Site site = Site::here()) { call(site, xmml_skip, me_, port.c_str()); }

    // Sends; false if every receiver has left. Time stamps follow from the loop unless given; std::nullopt as the next one says that
    // this is the last. send_to addresses one copy of a multiplied receiver; send gives every copy the message.
    bool send(Name port, const Sendable& data, Site site = Site::here()) {
        return queued(call(site, xmml_send, me_, port.c_str(), data.get()));
    }
    bool send(Name port, const Sendable& data, double timestamp, Site site = Site::here()) {
        return queued(call(site, xmml_send_at, me_, port.c_str(), data.get(), timestamp, XMML_DEFAULT_TIME));
    }
    bool send(Name port, const Sendable& data, double timestamp, std::optional<double> next_timestamp,
              Site site = Site::here()) {
        return queued(
            call(site, xmml_send_at, me_, port.c_str(), data.get(), timestamp, next_timestamp.value_or(XMML_NO_TIME)));
    }
    bool send_to(Name port, std::uint32_t to, const Sendable& data, Site site = Site::here()) {
        return queued(call(site, xmml_send_to, me_, port.c_str(), to, data.get()));
    }
    bool send_to(Name port, std::uint32_t to, const Sendable& data, double timestamp, Site site = Site::here()) {
        return queued(call(site, xmml_send_to_at, me_, port.c_str(), to, data.get(), timestamp, XMML_DEFAULT_TIME));
    }
    bool send_to(Name port, std::uint32_t to, const Sendable& data, double timestamp,
                 std::optional<double> next_timestamp, Site site = Site::here()) {
        return queued(call(site, xmml_send_to_at, me_, port.c_str(), to, data.get(), timestamp,
                           next_timestamp.value_or(XMML_NO_TIME)));
    }

    // Offers an object to the readers of a pool; returns how many of them choose it. Attributes are NAME=VALUE with white space between,
    // checked against the datatype of the port (see xmml_pools.h).
    std::uint64_t put(Name port, const Sendable& data, const std::string& attributes = "", Site site = Site::here()) {
        std::uint64_t readers = 0;
        call(site, xmml_put, me_, port.c_str(), data.get(), attributes.c_str(), &readers);
        return readers;
    }

    // How many readers would choose an object with these attributes, and have not left: where nobody would, it need not be computed.
    std::uint64_t wanted(Name port, const std::string& attributes = "", Site site = Site::here()) {
        std::uint64_t readers = 0;
        call(site, xmml_wanted, me_, port.c_str(), attributes.c_str(), &readers);
        return readers;
    }

    // Begins a group: what is put on the port until it ends becomes visible together, and has these attributes unless a put gives others.
    // One that goes out of scope without an end is forgotten, with its objects:
    //
    //     auto record = me.group("fields", "step=3");
    //     record.put(temperature, "param=t");
    //     record.end();
    Group group(Name port, const std::string& attributes = "", Site site = Site::here());

    // Says that nothing more is put on the port, for a program that goes on. A reader sees the end when all its writers have said so, or
    // have left. Does not wait; what waits for readers is still given to them.
    void end(Name port, Site site = Site::here()) { call(site, xmml_end, me_, port.c_str()); }

    // Memory for an array of T, to be filled and then sent: receivers on this host get it without a copy (see Loan).
    template <class T>
    Loan<T> loan(std::initializer_list<Extent> shape, Order order = Order::row_major, Site site = Site::here()) {
        std::vector<std::size_t> extents(shape.begin(), shape.end());
        void* memory = nullptr;
        call(site, xmml_loan, me_, dtype_of<T>(), extents.size(), extents.data(), &memory);
        return {me_, static_cast<T*>(memory), std::move(extents), order};
    }

    // Waits for the next message. That the sender has ended is an EndedError.
    Message receive(Name port, Site site = Site::here()) {
        xmml_message* message = nullptr;
        call(site, xmml_receive, me_, port.c_str(), &message);
        return Message(message);
    }
    // Every message until the sender ends: for (const xmml::Message& message : me.messages("port")).
    Messages messages(Name port, Site site = Site::here());
    // From one copy of a multiplied sender.
    Message receive_of(Name port, std::uint32_t of, Site site = Site::here()) {
        xmml_message* message = nullptr;
        call(site, xmml_receive_of, me_, port.c_str(), of, &message);
        return Message(message);
    }
    // One from every copy; a single one if the sender is not multiplied.
    std::vector<Message> receive_all(Name port, Site site = Site::here()) {
        std::vector<Message> messages;
        const std::uint32_t count = copies(port, site);
        if (count == 0) messages.push_back(receive(port, site));
        for (std::uint32_t of = 0; of < count; ++of) messages.push_back(receive_of(port, of, site));
        return messages;
    }
    // Nothing when the sender has ended.
    std::optional<Message> receive_or_end(Name port, Site site = Site::here()) {
        xmml_message* message = nullptr;
        if (call(site, xmml_receive_or_end, me_, port.c_str(), &message) == XMML_ENDED) return std::nullopt;
        return Message(message);
    }
    std::optional<Message> receive_or_end_of(Name port, std::uint32_t of, Site site = Site::here()) {
        xmml_message* message = nullptr;
        if (call(site, xmml_receive_or_end_of, me_, port.c_str(), of, &message) == XMML_ENDED) return std::nullopt;
        return Message(message);
    }
    std::optional<Message> receive_for_of(Name port, std::uint32_t of, std::chrono::duration<double> timeout,
                                          Site site = Site::here()) {
        xmml_message* message = nullptr;
        if (call(site, xmml_receive_timeout_of, me_, port.c_str(), of, timeout.count(), &message) == XMML_TIMED_OUT)
            return std::nullopt;
        return Message(message);
    }
    // Nothing when no message came in time.
    std::optional<Message> receive_for(Name port, std::chrono::duration<double> timeout, Site site = Site::here()) {
        xmml_message* message = nullptr;
        if (call(site, xmml_receive_timeout, me_, port.c_str(), timeout.count(), &message) == XMML_TIMED_OUT)
            return std::nullopt;
        return Message(message);
    }
    // The next object of a pool that the selector of the port chooses: while (auto object = me.take("fields")). Nothing when all writers
    // have left.
    std::optional<Message> take(Name port, Site site = Site::here()) {
        xmml_message* object = nullptr;
        if (call(site, xmml_take, me_, port.c_str(), &object) == XMML_ENDED) return std::nullopt;
        return Message(object);
    }
    // Nothing when no object came in time.
    std::optional<Message> take_for(Name port, std::chrono::duration<double> timeout, Site site = Site::here()) {
        xmml_message* object = nullptr;
        const auto status = call(site, xmml_take_timeout, me_, port.c_str(), timeout.count(), &object);
        if (status == XMML_TIMED_OUT) return std::nullopt;
        return Message(object);
    }
    // Whether a message waits, so that receive returns at once.
    bool has_message(Name port, Site site = Site::here()) {
        int yes = 0;
        call(site, xmml_has_message, me_, port.c_str(), &yes);
        return yes != 0;
    }

    bool has_message_of(Name port, std::uint32_t of, Site site = Site::here()) {
        int yes = 0;
        call(site, xmml_has_message_of, me_, port.c_str(), of, &yes);
        return yes != 0;
    }

    // A handle of an open in port (run:open="yes"): bytes to be sent to others, who can open it and then send to this port. `holders` may
    // (0: any number); the port ends when they have closed it or left. Reached by `methods` in this order ("shm,tcp"), if any are given.
    Value handle(Name port, std::uint32_t holders = 1, Name methods = "", Site site = Site::here()) {
        xmml_value* handle = nullptr;
        call(site, xmml_handle, me_, port.c_str(), holders, methods.c_str(), &handle);
        return Value(Value::made(handle));
    }
    // Lets nobody open this handle of an own port any more.
    void revoke(const Sendable& handle, Site site = Site::here()) { call(site, xmml_revoke, me_, handle.get()); }

    // From now on what is sent on this open out port goes to the port that the handle stands for. Returns a number by which send_to addresses
    // it alone; send goes to every handle that is open at the port.
    std::uint32_t open(Name port, const Sendable& handle, Site site = Site::here()) {
        std::uint32_t number = 0;
        call(site, xmml_open, me_, port.c_str(), handle.get(), &number);
        return number;
    }
    // Ends what open began, at all handles that are open at the port or at one.
    void close(Name port, Site site = Site::here()) { call(site, xmml_close, me_, port.c_str()); }
    void close(Name port, std::uint32_t number, Site site = Site::here()) {
        call(site, xmml_close_number, me_, port.c_str(), number);
    }

    // Has every message of an in port given to `callback`, by the thread that waits in a call of this instance, as soon as the message is
    // there and may be received; nullptr: no longer. Never two callbacks at once. An exception in one fails the run, and comes out of
    // the call that waited. What `callback` has captured lives as long as the instance: another thread, or the callback itself, may be
    // in the middle of it when it is replaced.
    void on_message(Name port, std::function<void(Message)> callback, Site site = Site::here()) {
        if (!callback) {
            call(site, xmml_on_message, me_, port.c_str(), nullptr, nullptr);
            return;
        }
        auto listener = std::make_unique<Callback>(std::move(callback));
        call(site, xmml_on_message, me_, port.c_str(), &called, listener.get());
        kept_->keep(std::move(listener));
    }
    // Waits until at least one callback was called; false if nothing more will come on any port that has one.
    bool serve(Site site = Site::here()) { return call(site, xmml_serve, me_) == XMML_OK; }
    // The same for a while; false also if no message came in time.
    bool serve_for(std::chrono::duration<double> timeout, Site site = Site::here()) {
        return call(site, xmml_serve_timeout, me_, timeout.count()) == XMML_OK;
    }

    // What an instance by itself (see Alone) has sent on a port so far.
    std::vector<Message> outputs(Name port, Site site = Site::here()) {
        std::vector<Message> messages;
        xmml_message* message = nullptr;
        while (call(site, xmml_output, me_, port.c_str(), messages.size(), &message) == XMML_OK)
            messages.emplace_back(message);
        return messages;
    }

    // For calls of the C API; null after leave().
    xmml_instance* get() const noexcept { return me_; }

protected:
    explicit Instance(xmml_instance* me) noexcept : me_(me) {}

    // The name of a port as the instance keeps it.
    template <class Bind>
    const char* bound(Bind bind, Name port, const Site& site) {
        const char* name = nullptr;
        call(site, bind, me_, port.c_str(), &name);
        return name;
    }

private:
    friend class Alone;

    using Callback = std::function<void(Message)>;

    // What stays in its place when the instance is moved. Several threads that use the instance may touch it at once.
    class Kept {
    public:
        explicit Kept(Instance* owner) noexcept : instance(owner) {}

        // Where the instance is now.
        Instance* instance;

        void note(const char* error) {
            const std::lock_guard<std::mutex> lock(mutex_);
            error_ = error;
        }
        std::string last_error() {
            const std::lock_guard<std::mutex> lock(mutex_);
            return error_;
        }
        void keep(std::unique_ptr<Callback> callback) {
            const std::lock_guard<std::mutex> lock(mutex_);
            callbacks_.push_back(std::move(callback));
        }

    private:
        std::mutex mutex_;
        std::string error_;
        std::vector<std::unique_ptr<Callback>> callbacks_;
    };

    // What the C API calls in place of a function object; exceptions do not pass it.
    static int called(void* callback, xmml_message* message) noexcept {
        try {
            (*static_cast<Callback*>(callback))(Message(message));
            return 0;
        } catch (...) {
            detail::thrown = std::current_exception();
            return 1;
        }
    }

    template <class Function, class... Arguments>
    xmml_status call(const Site& site, Function function, Arguments&&... arguments) {
        try {
            return detail::call(site, function, std::forward<Arguments>(arguments)...);
        } catch (const Error& error) {
            if (kept_ != nullptr) kept_->note(error.what());
            if (std::exception_ptr thrown = std::exchange(detail::thrown, nullptr)) std::rethrow_exception(thrown);
            throw;
        }
    }
    static bool queued(xmml_status status) noexcept { return status != XMML_RECEIVER_GONE; }
    void forget() noexcept {
        xmml_instance* me = me_;
        detail::joined.compare_exchange_strong(me, nullptr);
    }

    xmml_instance* me_ = nullptr;
    int exceptions_ = std::uncaught_exceptions();
    std::unique_ptr<Kept> kept_ = std::make_unique<Kept>(this);

    friend class Group;
};

// Objects that become visible together (see Instance::group). The instance must outlive it, and may be moved.
class Group {
public:
    Group(Group&& other) noexcept : kept_(std::exchange(other.kept_, nullptr)), port_(std::move(other.port_)) {}
    Group& operator=(Group&&) = delete;
    ~Group() {
        if (kept_ != nullptr) (xmml_group_abandon)(kept_->instance->me_, port_.c_str());
    }

    // Adds an object; returns how many readers choose it.
    std::uint64_t put(const Sendable& data, const std::string& attributes = "", Site site = Site::here()) {
        if (kept_ == nullptr) throw std::logic_error("this group has ended");
        return kept_->instance->put(port_, data, attributes, site);
    }

    // Has the objects visible; returns how many readers get some of them.
    std::uint64_t end(Site site = Site::here()) {
        const Instance::Kept* kept = std::exchange(kept_, nullptr);
        if (kept == nullptr) throw std::logic_error("this group has ended");
        std::uint64_t readers = 0;
        kept->instance->call(site, xmml_group_end, kept->instance->me_, port_.c_str(), &readers);
        return readers;
    }

private:
    friend class Instance;
    Group(const Instance::Kept* kept, std::string port) : kept_(kept), port_(std::move(port)) {}

    const Instance::Kept* kept_;
    std::string port_;
};

inline Group Instance::group(Name port, const std::string& attributes, Site site) {
    call(site, xmml_group_begin, me_, port.c_str(), attributes.c_str());
    return {kept_.get(), port.c_str()};
}

}  // namespace xmml

#endif
