/* Puts objects with an attribute of every type, or prints what it takes. See ../test_pools_in_every_language.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmml.h>

#define OF_EVERY_TYPE                                                                                   \
    "truth=true whole=-3 natural=9007199254740993 number=0.1 text='say \"\302\265\"' level=ml "         \
    "moment=2026-11-27T13:30:00.250001+01:00 wholes=[1,-2,9007199254740993] numbers=[0.1,-2.5] raw='raw \302\265'"

static xmml_instance *me;

static xmml_status done(xmml_status status)
{
    if (status < 0) {
        fprintf(stderr, "%s\n", xmml_error());
        exit(1);
    }
    return status;
}

static void print_error(const char *what, xmml_status status)
{
    const char *kind = status == XMML_ERROR_USAGE           ? "usage"
                       : status == XMML_ERROR_TYPE          ? "type"
                       : status == XMML_ERROR_NOT_CONNECTED ? "port"
                                                            : "other";
    printf("%s: %s: %s\n", what, kind, xmml_error());
}

static const xmml_value *attribute(xmml_message *object, const char *name)
{
    const xmml_value *value;
    done(xmml_attribute(object, name, &value));
    return value;
}

static void print_bits(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    printf("%016" PRIX64, bits);
}

static void print_hex(const void *bytes, size_t size)
{
    const unsigned char *each = bytes;
    for (size_t i = 0; i < size; i++) printf("%02X", each[i]);
}

static int64_t whole(xmml_message *object, const char *name)
{
    int64_t number;
    done(xmml_read_int(attribute(object, name), &number));
    return number;
}

static const char *text(xmml_message *object, const char *name)
{
    const char *found;
    done(xmml_read_text(attribute(object, name), &found, NULL));
    return found;
}

static void print_lists(xmml_message *object)
{
    xmml_array list;
    done(xmml_read_array(attribute(object, "wholes"), XMML_I64, 1, XMML_ROW_MAJOR, &list));
    printf(" wholes");
    for (size_t i = 0; i < list.shape[0]; i++) printf(" %" PRId64, ((const int64_t *)list.data)[i]);
    done(xmml_read_array(attribute(object, "numbers"), XMML_F64, 1, XMML_ROW_MAJOR, &list));
    printf(" numbers");
    for (size_t i = 0; i < list.shape[0]; i++) {
        printf(" ");
        print_bits(((const double *)list.data)[i]);
    }
}

static void print_object(xmml_message *object)
{
    int truth;
    double number;
    const void *raw;
    size_t size;
    xmml_array field;
    printf("%s", text(object, "sys.instance"));
    for (size_t i = 0; i < xmml_attribute_count(object); i++) printf("%s%s", i ? "," : " ", xmml_attribute_name(object, i));
    if (attribute(object, "truth") == NULL) {
        printf(" whole %" PRId64 " kind %d", whole(object, "whole"), (int)xmml_value_kind(xmml_message_data(object)));
        if (attribute(object, "sys.group") != NULL)
            printf(" group %" PRId64 " follow %" PRId64, whole(object, "sys.group"), whole(object, "sys.follow"));
        printf("\n");
        return;
    }
    done(xmml_read_bool(attribute(object, "truth"), &truth));
    done(xmml_read_double(attribute(object, "number"), &number));
    printf(" truth %s whole %" PRId64, truth ? "true" : "false", whole(object, "whole"));
    printf(" natural %" PRId64 " number ", whole(object, "natural"));
    print_bits(number);
    printf(" text ");
    print_hex(text(object, "text"), strlen(text(object, "text")));
    printf(" level %s moment %s", text(object, "level"), text(object, "moment"));
    print_lists(object);
    done(xmml_read_bytes(attribute(object, "raw"), &raw, &size));
    printf(" raw ");
    print_hex(raw, size);
    done(xmml_message_array(object, XMML_F64, 2, &field));
    printf(" elements %d %d\n", (int)((const double *)field.data)[1], (int)((const double *)field.data)[3]);
}

static void print_read_errors(xmml_message *object)
{
    const xmml_value *value;
    int64_t number;
    print_error("unknown", xmml_attribute(object, "truht", &value));
    if (attribute(object, "text") != NULL) print_error("mistyped", xmml_read_int(attribute(object, "text"), &number));
}

static void write_objects(void)
{
    const double field[6] = {0, 1, 2, 3, 4, 5};
    const size_t shape[2] = {2, 3};
    const char *objects;
    uint64_t readers;
    done(xmml_put_array(me, "objects", XMML_F64, 2, shape, field, OF_EVERY_TYPE, &readers));
    printf("readers %d\n", (int)readers);
    done(xmml_bind_out(me, "objects", &objects));
    done(xmml_put(me, objects, NULL, "whole=4", NULL));
    print_error("unknown", xmml_put(me, objects, NULL, "whloe=4", NULL));
    print_error("mistyped", xmml_put(me, "objects", NULL, "whole=x", NULL));
    done(xmml_put(me, "nowhere", NULL, NULL, &readers));
    printf("nowhere %d\n", (int)readers);
    done(xmml_wanted(me, "objects", "whole=4", &readers));
    printf("wanted %d", (int)readers);
    done(xmml_wanted(me, objects, "whole=5", &readers));
    printf(" %d\n", (int)readers);
    print_error("unwanted", xmml_wanted(me, objects, "whloe=4", &readers));
}

static void write_groups(void)
{
    const char *objects;
    uint64_t readers;
    done(xmml_bind_out(me, "objects", &objects));
    done(xmml_group_begin(me, objects, "whole=5"));
    done(xmml_put(me, objects, NULL, NULL, NULL));
    done(xmml_group_abandon(me, objects));
    done(xmml_group_begin(me, "objects", "whole=6"));
    print_error("second", xmml_group_begin(me, "objects", NULL));
    done(xmml_put(me, objects, NULL, NULL, NULL));
    done(xmml_put(me, "objects", NULL, "whole=7", NULL));
    done(xmml_group_end(me, "objects", &readers));
    printf("group %d\n", (int)readers);
    print_error("over", xmml_group_end(me, "objects", NULL));
    print_error("common", xmml_group_begin(me, "objects", "whloe=4"));
    done(xmml_group_begin(me, "objects", "whole=8"));
    done(xmml_put(me, "objects", NULL, NULL, NULL));
}

static void read_objects(void)
{
    xmml_message *object;
    const char *objects;
    if (done(xmml_take_timeout(me, "later", 0.01, &object)) == XMML_TIMED_OUT) printf("timed out\n");
    done(xmml_put(me, "go", NULL, NULL, NULL));
    done(xmml_end(me, "go"));
    print_error("late", xmml_put(me, "go", NULL, NULL, NULL));
    if (done(xmml_take(me, "later", &object)) == XMML_ENDED) printf("ended\n");
    print_error("nowhere", xmml_take(me, "nowhere", &object));
    done(xmml_bind_in(me, "objects", &objects));
    while (done(xmml_take(me, objects, &object)) == XMML_OK) {
        print_object(object);
        print_read_errors(object);
        xmml_message_free(object);
    }
}

int main(void)
{
    int again;
    done(xmml_join(&me));
    while (done(xmml_reuse(me, &again)) == XMML_OK && again) {
        if (xmml_name(me)[0] == 'w') {
            write_objects();
            write_groups();
        } else {
            read_objects();
        }
    }
    done(xmml_leave(&me));
    return 0;
}
