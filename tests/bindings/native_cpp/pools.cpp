// Moves its instance away from under a group, and then from under another that it forgets. See test_pools.py.
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <xmml.hpp>

int main() {
    auto first = std::make_unique<xmml::Instance>();
    first->reuse();
    auto group = first->group("fields", "step=1");
    group.put(1);
    auto second = std::make_unique<xmml::Instance>(std::move(*first));
    first.reset();
    group.put(2);
    std::printf("%d\n", static_cast<int>(group.end()));

    std::optional<xmml::Group> forgotten = second->group("fields", "step=2");
    forgotten->put(3);
    xmml::Instance me = std::move(*second);
    second.reset();
    forgotten.reset();
    me.put("fields", 4, "step=3");
    return me.reuse();
}
