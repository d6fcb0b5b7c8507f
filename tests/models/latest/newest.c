/* Prints the numbers that it sees, and polls once before. See ../test_latest.py. */
#include <stdio.h>
#include <xmml.h>

int main(void) {
    xmml_instance *me;
    xmml_message *message;
    int again;
    int64_t number;
    if (xmml_join(&me) != XMML_OK) return 1;
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        if (xmml_receive_timeout(me, "fields", 0.0, &message) != XMML_TIMED_OUT) return 1;
        if (xmml_send_int(me, "ready", 1) != XMML_OK) return 1;
        while (xmml_receive_or_end(me, "fields", &message) == XMML_OK) {
            if (xmml_read_int(xmml_message_data(message), &number) != XMML_OK) return 1;
            printf("%ld\n", (long)number);
            xmml_message_free(message);
        }
    }
    return xmml_leave(&me) != XMML_OK;
}
