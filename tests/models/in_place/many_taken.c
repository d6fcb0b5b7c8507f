/* Adds up what it receives in each step, and frees it. */
#include <stdio.h>
#include <xmml.h>

static int failed(void)
{
    fprintf(stderr, "%s\n", xmml_error());
    return 1;
}

int main(void)
{
    xmml_instance *me;
    xmml_message *message;
    xmml_array array;
    double t, sum;
    size_t i;
    int again;

    if (xmml_join(&me) != XMML_OK) return failed();
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        sum = 0;
        while (xmml_step(me, &t) == XMML_OK) {
            if (xmml_receive(me, "in", &message) < 0) return failed();
            if (xmml_message_array(message, XMML_F64, 1, &array) < 0) return failed();
            for (i = 0; i < array.shape[0]; ++i) sum += ((const double *)array.data)[i];
            xmml_message_free(message);
        }
        printf("sum %f\n", sum);
    }
    return xmml_leave(&me) == XMML_OK ? 0 : failed();
}
