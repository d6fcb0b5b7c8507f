/* Prints before and after it joins, and waits for its input to end. */
#include <stdio.h>
#include <xmml.h>

int main(void) {
    xmml_instance *me;
    printf("before\n");
    if (xmml_join(&me) != XMML_OK) {
        fprintf(stderr, "%s\n", xmml_error());
        return 1;
    }
    printf("after\n");
    while (getchar() != EOF) {
    }
    return xmml_leave(&me) == XMML_OK ? 0 : 1;
}
