/* Puts a field in each step, says how many readers chose it, and then tries what is not allowed. */
#include <stdio.h>
#include <xmml.h>

int main(void) {
    xmml_instance *me;
    int again;
    double t;
    double field[6] = {0};
    size_t shape[2] = {2, 3};
    char text[200];
    uint64_t readers;
    if (xmml_join(&me) != XMML_OK) return 1;
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        while (xmml_step(me, &t) == XMML_OK) {
            for (int i = 0; i < 6; i++) field[i] = t + i;
            snprintf(text, sizeof text, "step=%d share=%g", (int)t, t / 4);
            if (xmml_group_begin(me, "fields", "param=u") != XMML_OK ||
                xmml_put_array(me, "fields", XMML_F64, 2, shape, field, text, &readers) != XMML_OK ||
                xmml_group_end(me, "fields", NULL) != XMML_OK) {
                fprintf(stderr, "%s\n", xmml_error());
                return 1;
            }
            printf("%d\n", (int)readers);
        }
    }
    if (xmml_put(me, "fields", NULL, "step=9 param=w", NULL) != XMML_OK) printf("%s\n", xmml_error());
    return xmml_leave(&me) != XMML_OK;
}
