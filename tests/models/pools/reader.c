/* Takes fields, and prints where each is from. */
#include <stdio.h>
#include <xmml.h>

int main(void) {
    xmml_instance *me;
    int again;
    xmml_message *object;
    xmml_status status;
    if (xmml_join(&me) != XMML_OK) return 1;
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        while ((status = xmml_take_timeout(me, "fields", 60.0, &object)) == XMML_OK) {
            const xmml_value *value;
            int64_t step, index;
            const char *param;
            xmml_array field;
            xmml_attribute(object, "step", &value);
            xmml_read_int(value, &step);
            xmml_attribute(object, "sys.index", &value);
            if (value == NULL || xmml_read_int(value, &index) != XMML_OK) index = 0;
            xmml_attribute(object, "param", &value);
            xmml_read_text(value, &param, NULL);
            if (xmml_message_array(object, XMML_F64, 2, &field) != XMML_OK) return 1;
            if (((const double *)field.data)[0] != (double)(step + index)) return 1;
            printf("%d %d %s\n", (int)index, (int)step, param);
            if (xmml_attribute(object, "stap", &value) == XMML_OK) return 1;
            xmml_message_free(object);
        }
        if (status != XMML_ENDED) return 1;
    }
    return xmml_leave(&me) != XMML_OK;
}
