/* Sends at a port that it does not have, and does not ask why that failed; with an argument it asks. */
#include <stdio.h>
#include <xmml.h>

int main(int argc, char **argv)
{
    xmml_instance *me;
    int again;
    double t;

    (void)argv;
    if (xmml_join(&me) != XMML_OK) return 1;
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        while (xmml_step(me, &t) == XMML_OK) {
            if (xmml_send_double(me, "oo", t) == XMML_OK) continue;
            if (argc > 1) fprintf(stderr, "it says: %s\n", xmml_error());
            return 1;
        }
    }
    return xmml_leave(&me) == XMML_OK ? 0 : 1;
}
