// Every call of xmml_path.hpp, both ends in one program. The environment says in which FOLDER the secret lies.
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <xmml_path.hpp>

#include "behaviour.h"

using xmml::Lane;
using xmml::Path;
using xmml::PathIdentity;
using xmml::PathListener;
using xmml::PathSettings;

namespace {

constexpr double LONG = 60;     // seconds; nothing takes so long unless it hangs
constexpr double SHORT = 0.03;  // seconds in which nothing comes

std::string in_folder(const std::string& name) { return std::string(std::getenv("FOLDER")) + "/" + name; }

std::pair<Path, Path> meet(const PathIdentity& here, const PathIdentity& there, const PathSettings& settings) {
    PathListener listener("127.0.0.1:0", there, settings);
    CHECK(!listener.accept(SHORT));
    Path dialled = Path::dial(listener.address(), here, "there", settings, LONG);
    auto accepted = listener.accept(LONG);
    CHECK(accepted);
    return {std::move(dialled), std::move(*accepted)};
}

std::pair<Path, Path> pair(const PathSettings& settings = {}) {
    return meet({"run", "here", in_folder("secret")}, {"run", "there", in_folder("secret")}, settings);
}

std::string next(Path& path, Lane lane = Lane::bulk) {
    auto message = path.receive(lane, LONG);
    CHECK(message);
    return message->text();
}

// The status of the exception that this throws; XMML_OK if it throws none.
xmml_status thrown(const std::function<void()>& call) {
    try {
        call();
    } catch (const xmml::Error& error) {
        return error.status();
    }
    return XMML_OK;
}

void paths_open_carry_both_lanes_and_close() {
    auto [here, there] = pair();
    CHECK(!there.take());
    CHECK(thrown([&there = there] { there.receive(Lane::bulk, SHORT); }) == XMML_TIMED_OUT);
    CHECK(here.send(std::string("bulk"), Lane::bulk, LONG));
    CHECK(here.send("control", 7, Lane::control, LONG));
    CHECK(next(there, Lane::control) == "control");
    CHECK(next(there) == "bulk");
    here.finish();
    CHECK(thrown([&here = here] { here.send("late", 4); }) == XMML_ERROR_USAGE);
    CHECK(!there.receive(Lane::bulk, LONG));
    std::thread closing([&here = here] { CHECK(here.close(LONG)); });
    CHECK(there.close(LONG));
    closing.join();
    auto [left, alone] = pair();
    CHECK(!left.close(SHORT));
}

void what_is_posted_arrives_or_a_time_passes() {
    PathSettings narrow;
    narrow.streams = 1;
    narrow.window = narrow.queue = 1 << 20;
    auto [here, there] = pair(narrow);
    std::string bytes(4 << 20, 'x');
    here.post("note", 4, Lane::control);
    CHECK(here.flush(LONG));
    here.post(bytes.data(), bytes.size());
    const auto ticket = here.post(bytes.data(), bytes.size());
    const std::string sent = std::exchange(bytes, std::string(bytes.size(), 'y'));
    CHECK(!here.arrived(ticket, SHORT));
    CHECK(!here.flush(SHORT));
    CHECK(!here.send("more", 4, Lane::bulk, SHORT));
    CHECK(thrown([&here = here] { xmml::scatter<std::string>({&here}, {"part"}, Lane::bulk, SHORT); }) == XMML_TIMED_OUT);
    CHECK(next(there) == sent);
    CHECK(next(there) == sent);
    CHECK(here.arrived(ticket, LONG));
    CHECK(next(there, Lane::control) == "note");
}

void messages_are_exchanged_and_passed_in_a_ring() {
    auto [one, one_there] = pair();
    auto [other, other_there] = pair();
    CHECK(thrown([&one = one] { one.send_receive("1", 1, Lane::bulk, SHORT); }) == XMML_TIMED_OUT);
    CHECK(thrown([&one = one, &other = other] { one.cycle(other, "2", 1, Lane::bulk, SHORT); }) == XMML_TIMED_OUT);
    CHECK(next(one_there) == "1");
    CHECK(next(one_there) == "2");
    one_there.send(std::string("answer"));
    CHECK(one.send_receive("question", 8, Lane::bulk, LONG)->text() == "answer");
    CHECK(next(one_there) == "question");
    other_there.send(std::string("from another"));
    CHECK(one.cycle(other, "on", 2, Lane::bulk, LONG)->text() == "from another");
    CHECK(next(one_there) == "on");
}

void both_ends_meet_at_a_barrier() {
    auto [here, there] = pair();
    CHECK(!here.barrier(SHORT));
    CHECK(there.barrier(LONG));
    there.send(std::string("before"));
    std::thread other([&there = there] { CHECK(there.barrier(LONG)); });
    CHECK(here.barrier(LONG));
    other.join();
    CHECK(next(here) == "before");
}

void a_relay_passes_messages_and_ends_on() {
    auto [here, near] = pair();
    auto [far, there] = pair();
    std::thread relaying([&near = near, &far = far] { near.relay(far); });
    here.send(std::string("there"));
    there.send(std::string("back"), Lane::control);
    CHECK(next(there) == "there");
    CHECK(next(here, Lane::control) == "back");
    here.finish();
    there.finish();
    CHECK(!there.receive(Lane::bulk, LONG));
    CHECK(!here.receive(Lane::bulk, LONG));
    relaying.join();
}

void a_relay_passes_failures_on() {
    auto [here, near] = pair();
    auto [far, there] = pair();
    xmml_status status = XMML_OK;
    std::thread relaying([&status, &near = near, &far = far] { status = thrown([&near, &far] { near.relay(far); }); });
    here.send(std::string("there"));
    there.send(std::string("back"), Lane::control);
    CHECK(next(there) == "there");
    CHECK(next(here, Lane::control) == "back");
    {
        Path given_up = std::move(here);
    }
    CHECK(thrown([&there = there] { there.receive(Lane::bulk, LONG); }) == XMML_ERROR_CONNECTION);
    CHECK_SAYS("has lost a path");
    relaying.join();
    CHECK(status == XMML_ERROR_CONNECTION);
}

void parts_are_scattered_and_gathered_all_or_none() {
    auto [one, one_there] = pair();
    auto [other, other_there] = pair();
    const std::vector<Path*> there{&one_there, &other_there};
    xmml::scatter<std::string>({&one, &other}, {"1", "22"}, Lane::bulk, LONG);
    auto parts = xmml::gather(there, Lane::bulk, LONG);
    CHECK(parts.size() == 2 && parts[0].text() == "1" && parts[1].text() == "22");
    one.send(std::string("early"));
    CHECK(one.flush(LONG));
    CHECK(thrown([&there] { xmml::gather(there, Lane::bulk, SHORT); }) == XMML_TIMED_OUT);
    CHECK_SAYS("sent no message within");
    other.send(std::string("late"));
    parts = xmml::gather(there, Lane::bulk, LONG);
    CHECK(parts.size() == 2 && parts[0].text() == "early" && parts[1].text() == "late");
    CHECK(thrown([&one = one] { xmml::scatter<std::string>({&one}, {}); }) == XMML_ERROR_USAGE);
}

void settings_change_and_what_has_passed_is_counted() {
    PathSettings settings;
    settings.streams = 1;
    auto [here, there] = pair(settings);
    settings.streams = 129;
    CHECK(thrown([&here = here, &settings] { here.set(settings); }) == XMML_ERROR_USAGE);
    settings.streams = 3;
    settings.zero_copy = XMML_PATH_ZERO_COPY_OFF;
    here.set(settings);
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(LONG);
    while (here.stats().streams != 3) {
        CHECK(std::chrono::steady_clock::now() < until);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    here.send(std::string("counted"));
    CHECK(next(there) == "counted");
    CHECK(there.stats().bytes_in >= 7 && there.stats().streams_lost == 0);
    CHECK(here.stats().why_copied == std::string("the path was told to copy"));
}

// How many threads of this process carry streams.
int workers() {
    int count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream comm(task.path() / "comm");
        std::string name;
        count += std::getline(comm, name) && name == "xmml-path-worke" ? 1 : 0;
    }
    return count;
}

void threads_carry_streams_if_they_are_wanted() {
    PathSettings settings;
    settings.workers = 2;
    auto [here, there] = pair(settings);
    settings.workers = -1;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(LONG);
    for (int expected : {4, 2}) {
        while (workers() != expected) {
            CHECK(std::chrono::steady_clock::now() < until);
            here.send(std::string("carried"));
            CHECK(next(there) == "carried");
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        here.set(settings);
    }
}

void an_event_loop_sees_what_comes() {
    auto [here, there] = pair();
    here.send(std::string("event"));
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(LONG);
    auto message = there.take();
    for (; !message; message = there.take()) {
        CHECK(std::chrono::steady_clock::now() < until);
        pollfd waiting{there.fd(), POLLIN, 0};
        CHECK(waiting.fd >= 0 && poll(&waiting, 1, 10) >= 0);  // the thread of the library may have been faster
        there.drive();
    }
    CHECK(message->text() == "event");
}

void encrypted_paths_know_each_other_by_fingerprints() {
    PathIdentity here{"run", "here", in_folder("secret"), in_folder("here.pem")};
    PathIdentity there{"run", "there", in_folder("secret"), in_folder("there.pem")};
    there.trusted = {xmml::make_credentials(here.credentials_file, "here", 3600)};
    here.trusted = {xmml::make_credentials(there.credentials_file, "there", 3600)};
    auto [dialled, accepted] = meet(here, there, {});
    dialled.send(std::string("secret"));
    CHECK(next(accepted) == "secret");
}

}  // namespace

int main(int argc, char** argv) {
    const behaviour all[] = {
        {"paths_open_carry_both_lanes_and_close", paths_open_carry_both_lanes_and_close},
        {"what_is_posted_arrives_or_a_time_passes", what_is_posted_arrives_or_a_time_passes},
        {"messages_are_exchanged_and_passed_in_a_ring", messages_are_exchanged_and_passed_in_a_ring},
        {"both_ends_meet_at_a_barrier", both_ends_meet_at_a_barrier},
        {"a_relay_passes_messages_and_ends_on", a_relay_passes_messages_and_ends_on},
        {"a_relay_passes_failures_on", a_relay_passes_failures_on},
        {"parts_are_scattered_and_gathered_all_or_none", parts_are_scattered_and_gathered_all_or_none},
        {"settings_change_and_what_has_passed_is_counted", settings_change_and_what_has_passed_is_counted},
        {"threads_carry_streams_if_they_are_wanted", threads_carry_streams_if_they_are_wanted},
        {"an_event_loop_sees_what_comes", an_event_loop_sees_what_comes},
        {"encrypted_paths_know_each_other_by_fingerprints", encrypted_paths_know_each_other_by_fingerprints},
        {nullptr, nullptr},
    };
    return run_behaviour(all, argc, argv);
}
