// Takes fields, and puts each again, 30 steps later.
#include <cstdio>
#include <string>
#include <vector>
#include <xmml.hpp>

int main() {
    xmml::Instance me;
    auto fields = me.out("later");
    while (me.reuse()) {
        while (auto object = me.take("fields")) {
            auto group = fields.group("param=v");
            auto field = object->array<double>(2).to_vector();
            for (double& value : field) value += 30;
            const int step = object->attribute("step")->as<int>() + 30;
            const auto shape = object->attribute("sys.shape")->array<std::int64_t>(1);
            if (shape(0) != 2 || object->attribute("sys.dt_next")) return 1;
            group.put(xmml::array(field.data(), {2, 3}), "step=" + std::to_string(step));
            std::printf("%d\n", static_cast<int>(group.end()));
        }
    }
}
