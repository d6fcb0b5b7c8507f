/* Offers a handle, asks by the one that it is offered, and adds up what it is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <xmml.h>

static void check(xmml_status status) {
    if (status < 0) {
        fprintf(stderr, "%s\n", xmml_error());
        exit(1);
    }
}

static int add(void *context, xmml_message *message) {
    int64_t number = 0;
    const xmml_status status = xmml_message_int(message, &number);
    xmml_message_free(message);
    *(int64_t *)context += number;
    return status == XMML_OK ? 0 : 1;
}

int main(void) {
    xmml_instance *me;
    int again;
    double t;
    check(xmml_join(&me));
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        while (xmml_step(me, &t) == XMML_OK) {
            int64_t sum = 0;
            uint32_t number;
            const char *text;
            xmml_value *handle, *list = xmml_list_new(), *map = xmml_map_new();
            xmml_message *offered;
            check(xmml_on_message(me, "questions", add, &sum));
            check(xmml_handle(me, "questions", 1, NULL, &handle));
            check(xmml_handle_text(handle, &text));
            printf("%.28s\n", text);
            check(xmml_list_add(list, handle));
            check(xmml_map_set(map, "ask", list));
            check(xmml_send(me, "offer", map));
            xmml_value_free(map);
            check(xmml_receive(me, "offered", &offered));
            check(xmml_open(me, "asked", xmml_list_get(xmml_map_get(xmml_message_data(offered), "ask"), 0), &number));
            xmml_message_free(offered);
            for (int64_t value = 0; value < 10; ++value) {
                xmml_value *question = xmml_value_int(value);
                check(xmml_send_to(me, "asked", number, question));
                xmml_value_free(question);
            }
            check(xmml_close_number(me, "asked", number));
            while (xmml_serve(me) == XMML_OK) {}
            printf("%d\n", (int)sum);
        }
    }
    check(xmml_leave(&me));
    return 0;
}
