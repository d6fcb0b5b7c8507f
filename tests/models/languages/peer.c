/* The peer of the cross-language suite in C: sends every case on every out port, or describes what arrives. See README.md. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmml.h>

#define MAX_RANK 7

static void expect(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, xmml_error());
    exit(1);
}

/* ---------------------------------------------------------------------------------------------------------- elements */

static const char *const dtypes[] = {"bool",   "int8",   "int16",   "int32",   "int64",     "uint8",     "uint16",
                                     "uint32", "uint64", "float32", "float64", "complex64", "complex128"};

static float single(uint64_t m) {
    switch (m) {
        case 0: return -0.0f;
        case 1: return INFINITY;
        case 2: return -INFINITY;
        case 3: return NAN;
        case 4: return ldexpf(1, -149);
        case 5: return 3.40282346638528859812e38f;
        default: return ((float)m - 4096) / 64;
    }
}

static double twofold(uint64_t m) {
    switch (m) {
        case 0: return -0.0;
        case 1: return INFINITY;
        case 2: return -INFINITY;
        case 3: return NAN;
        case 4: return ldexp(1, -1074);
        case 5: return 1.7976931348623157e308;
        default: return ((double)m - 4096) / 64 + ldexp((double)m, -40);
    }
}

/* Element number n, counted with the last index fastest, of array number `seed`. */
static void element(xmml_dtype dtype, uint64_t n, uint64_t seed, void *out) {
    const uint64_t m = (n % 8191 * 131 + seed * 29) % 8191;
    const uint64_t other = (m * 7 + 3) % 8191;
    const uint8_t u8 = (uint8_t)m;
    const uint16_t u16 = (uint16_t)(m * 8);
    const uint32_t u32 = (uint32_t)(m * 524288 + m);
    const uint64_t u64 = (m << 51) + m;
    const uint8_t truth = m & 1, i8 = u8 ^ 0x80;
    const uint16_t i16 = u16 ^ 0x8000;
    const uint32_t i32 = u32 ^ 0x80000000;
    const uint64_t i64 = u64 ^ 0x8000000000000000;
    const float f[2] = {single(m), single(other)};
    const double d[2] = {twofold(m), twofold(other)};
    const void *const from[] = {&truth, &i8, &i16, &i32, &i64, &u8, &u16, &u32, &u64, f, d, f, d};
    memcpy(out, from[dtype], xmml_dtype_size(dtype));
}

/* The elements of the array at hand; they are the same again after so many. */
enum { PERIOD = 8191 };
static unsigned char known[PERIOD * 16];

/* Makes known what an array of `size` elements has. */
static void make_known(xmml_dtype dtype, size_t size, uint64_t seed) {
    size_t n;
    for (n = 0; n < size && n < PERIOD; ++n) element(dtype, n, seed, known + n * xmml_dtype_size(dtype));
}

/* Where the element with number n (last index fastest) lies in memory of this order. */
static size_t place(size_t n, size_t rank, const size_t *shape, xmml_order order) {
    size_t at = 0, stride = 1, i;
    size_t index[MAX_RANK];
    if (order == XMML_ROW_MAJOR) return n;
    for (i = rank; i-- > 0; n /= shape[i]) index[i] = n % shape[i];
    for (i = 0; i < rank; stride *= shape[i++]) at += index[i] * stride;
    return at;
}

static unsigned long adler(const unsigned char *bytes, size_t size) {
    unsigned long a = 1, b = 0;
    size_t i, end;
    for (i = 0; i < size;) {
        for (end = size - i < 4096 ? size : i + 4096; i < end; ++i) {
            a += bytes[i];
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

/* ------------------------------------------------------------------------------------------------------------ writing */

static FILE *cases;
static char token[1 << 20];
static unsigned arrays; /* in the case at hand */
static unsigned number; /* of the case */

static const char *next_token(void) {
    size_t length = 0;
    int c;
    do c = fgetc(cases);
    while (isspace(c));
    for (; c != EOF && !isspace(c); c = fgetc(cases)) token[length++] = (char)c;
    token[length] = '\0';
    expect(length > 0, "the cases end too early");
    return token;
}

static double bits(const char *hex) {
    const uint64_t pattern = strtoull(hex, NULL, 16);
    double value;
    memcpy(&value, &pattern, sizeof value);
    return value;
}

/* "x4142" to bytes, in place. */
static size_t unhex(char *text) {
    size_t i, size = strlen(text) / 2;
    unsigned byte;
    for (i = 0; i < size; ++i) {
        sscanf(text + 1 + 2 * i, "%2x", &byte);
        text[i] = (char)byte;
    }
    text[size] = '\0';
    return size;
}

static xmml_value *array_value(void) {
    size_t shape[MAX_RANK], rank, i, width, size = 1;
    unsigned char *data;
    xmml_value *value;
    xmml_dtype dtype = XMML_BOOL;
    xmml_order order;
    const unsigned seed = number + 100 * arrays++;
    next_token();
    while (strcmp(dtypes[dtype], token) != 0) ++dtype;
    order = strcmp(next_token(), "row") == 0 ? XMML_ROW_MAJOR : XMML_COLUMN_MAJOR;
    rank = (size_t)atoi(next_token());
    for (i = 0; i < rank; ++i) size *= shape[i] = (size_t)atol(next_token());
    width = xmml_dtype_size(dtype);
    data = malloc(size * width + 1);
    expect(data != NULL, "no memory");
    make_known(dtype, size, seed);
    for (i = 0; i < size; ++i) memcpy(data + place(i, rank, shape, order) * width, known + i % PERIOD * width, width);
    value = xmml_value_array_order(dtype, order, rank, shape, data);
    free(data);
    return value;
}

static xmml_value *value_of(const char *kind) {
    xmml_value *value;
    if (strcmp(kind, "nothing") == 0) return xmml_value_nothing();
    if (strcmp(kind, "bool") == 0) return xmml_value_bool(atoi(next_token()));
    if (strcmp(kind, "int") == 0) return xmml_value_int(strtoll(next_token(), NULL, 10));
    if (strcmp(kind, "double") == 0) return xmml_value_double(bits(next_token()));
    if (strcmp(kind, "complex") == 0) {
        const double real = bits(next_token());
        return xmml_value_complex(real, bits(next_token()));
    }
    if (strcmp(kind, "text") == 0) {
        next_token();
        return xmml_value_text_of(token, unhex(token));
    }
    if (strcmp(kind, "bytes") == 0) {
        next_token();
        return xmml_value_bytes(token, unhex(token));
    }
    if (strcmp(kind, "array") == 0) return array_value();
    if (strcmp(kind, "[") == 0) {
        value = xmml_list_new();
        while (strcmp(next_token(), "]") != 0) expect(xmml_list_add(value, value_of(token)) == XMML_OK, "list");
        return value;
    }
    expect(strcmp(kind, "{") == 0, kind);
    value = xmml_map_new();
    while (strcmp(next_token(), "}") != 0) {
        char key[256];
        unhex(token);
        strcpy(key, token);
        expect(xmml_map_set(value, key, value_of(next_token())) == XMML_OK, "map");
    }
    return value;
}

static double time_of(const char *text) {
    return strcmp(text, "-") == 0 ? XMML_DEFAULT_TIME : strcmp(text, "none") == 0 ? XMML_NO_TIME : bits(text);
}

static void write_case(xmml_instance *me, const char *languages) {
    char names[256], port[300], *name;
    double time, next;
    xmml_value *value;
    arrays = 0;
    expect(number == (unsigned)atoi(next_token()), "number of the case");
    time = time_of(next_token());
    next = time_of(next_token());
    value = value_of(next_token());
    expect(value != NULL, "value");
    strcpy(names, languages);
    for (name = strtok(names, " "); name != NULL; name = strtok(NULL, " ")) {
        const char *to = port;
        sprintf(port, "to_%s", name);
        if (number % 2 == 1) expect(xmml_bind_out(me, port, &to) == XMML_OK, port);
        expect(xmml_send_at(me, to, value, time, next) == XMML_OK, port);
    }
    xmml_value_free(value);
}

/* ------------------------------------------------------------------------------------------------------------ reading */

static void put_double(FILE *out, double value) {
    uint64_t pattern;
    memcpy(&pattern, &value, sizeof pattern);
    fprintf(out, " %016llx", (unsigned long long)pattern);
}

static void put_hex(FILE *out, const void *bytes, size_t size) {
    size_t i;
    fputs(" x", out);
    for (i = 0; i < size; ++i) fprintf(out, "%02x", ((const unsigned char *)bytes)[i]);
}

static void describe_array(FILE *out, const xmml_value *value) {
    const unsigned seed = number + 100 * arrays++;
    size_t i, size;
    xmml_array array;
    const char *order;
    expect(xmml_read_any_array(value, XMML_ANY_ORDER, &array) == XMML_OK, "array");
    order = array.order == XMML_ROW_MAJOR ? "row" : "column";
    size = xmml_dtype_size(array.dtype);
    fprintf(out, " array %s %s %s %u", xmml_dtype_name(array.dtype), order, order, (unsigned)array.rank);
    for (i = 0; i < array.rank; ++i) fprintf(out, " %lu", (unsigned long)array.shape[i]);
    fprintf(out, " %08lx", adler(array.data, array.size * size));
    make_known(array.dtype, array.size, seed);
    for (i = 0; i < array.size; ++i) {
        const char *found = (const char *)array.data + place(i, array.rank, array.shape, array.order) * size;
        if (memcmp(known + i % PERIOD * size, found, size) != 0) {
            fprintf(out, " wrong@%lu", (unsigned long)i);
            return;
        }
    }
}

static void describe(FILE *out, const xmml_value *value) {
    int truth;
    int64_t whole;
    double real, imaginary;
    const char *text;
    const void *bytes;
    size_t i, size;
    switch (xmml_value_kind(value)) {
        case XMML_KIND_NOTHING: fputs(" nothing", out); return;
        case XMML_KIND_BOOL:
            expect(xmml_read_bool(value, &truth) == XMML_OK, "bool");
            fprintf(out, " bool %d", truth);
            return;
        case XMML_KIND_INT:
            expect(xmml_read_int(value, &whole) == XMML_OK, "int");
            fprintf(out, " int %lld", (long long)whole);
            return;
        case XMML_KIND_DOUBLE:
            expect(xmml_read_double(value, &real) == XMML_OK, "double");
            fputs(" double", out);
            put_double(out, real);
            return;
        case XMML_KIND_COMPLEX:
            expect(xmml_read_complex(value, &real, &imaginary) == XMML_OK, "complex");
            fputs(" complex", out);
            put_double(out, real);
            put_double(out, imaginary);
            return;
        case XMML_KIND_TEXT:
            expect(xmml_read_text(value, &text, &size) == XMML_OK, "text");
            fputs(" text", out);
            put_hex(out, text, size);
            return;
        case XMML_KIND_BYTES:
            expect(xmml_read_bytes(value, &bytes, &size) == XMML_OK, "bytes");
            fputs(" bytes", out);
            put_hex(out, bytes, size);
            return;
        case XMML_KIND_ARRAY: describe_array(out, value); return;
        case XMML_KIND_LIST:
            fputs(" [", out);
            for (i = 0; i < xmml_list_size(value); ++i) describe(out, xmml_list_get(value, i));
            fputs(" ]", out);
            return;
        case XMML_KIND_MAP:
            fputs(" {", out);
            for (i = 0; i < xmml_map_size(value); ++i) {
                put_hex(out, xmml_map_key(value, i), strlen(xmml_map_key(value, i)));
                describe(out, xmml_map_value(value, i));
            }
            fputs(" }", out);
            return;
    }
}

static void read_case(xmml_instance *me, const char *languages) {
    char names[256], port[300], *name;
    strcpy(names, languages);
    for (name = strtok(names, " "); name != NULL; name = strtok(NULL, " ")) {
        const char *from = port;
        xmml_message *message;
        FILE *out;
        arrays = 0;
        sprintf(port, "from_%s", name);
        if (number % 2 == 1) expect(xmml_bind_in(me, port, &from) == XMML_OK, port);
        expect(xmml_receive(me, from, &message) == XMML_OK, port);
        out = fopen(port, "a");
        expect(out != NULL, "the report");
        fprintf(out, "%u", number);
        put_double(out, xmml_message_timestamp(message));
        if (xmml_message_has_next(message)) put_double(out, xmml_message_next_timestamp(message));
        else fputs(" none", out);
        describe(out, xmml_message_data(message));
        fputs("\n", out);
        expect(fclose(out) == 0, "the report");
        xmml_message_free(message);
    }
}

int main(void) {
    xmml_instance *me;
    const char *languages, *file;
    double t;
    int again, writes;
    expect(xmml_join(&me) == XMML_OK, "join");
    expect(xmml_param_text(me, "languages", &languages) == XMML_OK, "languages");
    expect(xmml_param_text(me, "cases", &file) == XMML_OK, "cases");
    writes = xmml_name(me)[0] == 'w';
    if (writes) expect((cases = fopen(file, "r")) != NULL, file);
    while (xmml_reuse(me, &again) == XMML_OK && again)
        for (; xmml_step(me, &t) == XMML_OK; ++number) writes ? write_case(me, languages) : read_case(me, languages);
    if (writes) fclose(cases);
    expect(xmml_leave(&me) == XMML_OK, "leave");
    return 0;
}
