/* Device output: printf's conversions, and the FIFO that the client drains.
 *
 * The FIFO holds entries (u32 length, u32 channel, bytes) that wrap byte by byte. When it is full, what is printed
 * further is lost (hardware overwrites the oldest text instead; both lose text beyond the limit).
 */
#define _GNU_SOURCE
#include "executor.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;

static void put(uint64_t at, const void *bytes, size_t count)
{
    size_t place = at % CUTTLE_TEXT_FIFO_BYTES;
    size_t first = CUTTLE_TEXT_FIFO_BYTES - place < count ? CUTTLE_TEXT_FIFO_BYTES - place : count;
    memcpy(executor.text + place, bytes, first);
    memcpy(executor.text, (const uint8_t *)bytes + first, count - first);
}

void text_write(enum text_channel channel, const char *bytes, size_t count)
{
    cuttle_status_page *status = executor.status;
    uint32_t header[2] = {(uint32_t)count, (uint32_t)channel};
    pthread_mutex_lock(&text_lock);
    uint64_t limit = LOAD_RELAXED(status->text_limit);
    if (limit == 0 || limit > CUTTLE_TEXT_FIFO_BYTES) {
        limit = CUTTLE_TEXT_FIFO_BYTES;
    }
    uint64_t head = status->text_head;
    uint64_t used = head - LOAD_ACQUIRE(status->text_tail);
    if (used + sizeof header + count <= limit) {
        put(head, header, sizeof header);
        put(head + sizeof header, bytes, count);
        STORE_RELEASE(status->text_head, head + sizeof header + count);
    }
    pthread_mutex_unlock(&text_lock);
}

/* The argument buffer of a vprintf call: values one after the other, naturally aligned. */
typedef struct argument_reader {
    const uint8_t *bytes;
    size_t offset;
    int32_t count;
} argument_reader;

static uint64_t next_argument(argument_reader *reader, size_t bytes)
{
    uint64_t value = 0;
    reader->offset = (reader->offset + bytes - 1) / bytes * bytes;
    if (reader->bytes != NULL) {
        memcpy(&value, reader->bytes + reader->offset, bytes);
    }
    reader->offset += bytes;
    reader->count++;
    return value;
}

typedef struct text_sink {
    char *text;
    size_t capacity;
    size_t length;
} text_sink;

static void append(text_sink *sink, const char *bytes, size_t count)
{
    size_t room = sink->capacity - sink->length;
    count = count < room ? count : room;
    memcpy(sink->text + sink->length, bytes, count);
    sink->length += count;
}

/* One conversion specification, as the host's snprintf will see it. */
typedef struct conversion {
    char flags[8];
    int width; /* -1: none */
    int precision; /* -1: none */
    char size; /* 0, 'h', 'H' (hh), 'l', 'q' (ll) */
    char letter;
} conversion;

static const char *read_number(const char *format, argument_reader *reader, int *result)
{
    if (*format == '*') {
        *result = (int32_t)next_argument(reader, 4);
        return format + 1;
    }
    int value = 0;
    for (; *format >= '0' && *format <= '9'; format++) {
        value = value < 100000 ? value * 10 + (*format - '0') : value;
    }
    *result = value;
    return format;
}

static const char *read_conversion(const char *format, argument_reader *reader, conversion *one)
{
    *one = (conversion){.width = -1, .precision = -1};
    size_t flags = 0;
    for (; *format != '\0' && strchr("-+ #0", *format) != NULL; format++) {
        if (flags + 1 < sizeof one->flags && strchr(one->flags, *format) == NULL) {
            one->flags[flags++] = *format;
        }
    }
    if (*format == '*' || (*format >= '0' && *format <= '9')) {
        format = read_number(format, reader, &one->width);
        if (one->width < 0) { /* from an argument: left-justified */
            one->width = -one->width;
            if (strchr(one->flags, '-') == NULL && flags + 1 < sizeof one->flags) {
                one->flags[flags++] = '-';
            }
        }
    }
    if (*format == '.') {
        format = read_number(format + 1, reader, &one->precision);
    }
    for (; *format != '\0' && strchr("hlLqjzt", *format) != NULL; format++) {
        if (*format == 'h') {
            one->size = one->size == 'h' ? 'H' : 'h';
        } else {
            one->size = 'q'; /* every other size is 64 bits wide on 64-bit Linux */
        }
    }
    one->letter = *format;
    return *format != '\0' ? format + 1 : format;
}

static void write_value(text_sink *sink, const conversion *one, const char *size, uint64_t value, bool is_float)
{
    char format[64];
    char text[512];
    int used = snprintf(format, sizeof format, "%%%s", one->flags);
    if (one->width >= 0) {
        used += snprintf(format + used, sizeof format - (size_t)used, "%d", one->width < 400 ? one->width : 400);
    }
    if (one->precision >= 0) {
        used += snprintf(format + used, sizeof format - (size_t)used, ".%d", one->precision < 80 ? one->precision : 80);
    }
    snprintf(format + used, sizeof format - (size_t)used, "%s%c", size, one->letter);
    int count;
    if (is_float) {
        double number;
        memcpy(&number, &value, 8);
        count = snprintf(text, sizeof text, format, number);
    } else if (one->letter == 'p') {
        count = snprintf(text, sizeof text, format, (void *)(uintptr_t)value);
    } else if (*size == 'l') {
        count = snprintf(text, sizeof text, format, (long long)value);
    } else {
        count = snprintf(text, sizeof text, format, (int)(uint32_t)value);
    }
    append(sink, text, count < 0 ? 0 : (size_t)count < sizeof text ? (size_t)count : sizeof text - 1);
}

static void write_padded(text_sink *sink, const conversion *one, const char *bytes, size_t count)
{
    bool left = strchr(one->flags, '-') != NULL;
    size_t padding = one->width > 0 && (size_t)one->width > count ? (size_t)one->width - count : 0;
    for (size_t i = 0; !left && i < padding; i++) {
        append(sink, " ", 1);
    }
    append(sink, bytes, count);
    for (size_t i = 0; left && i < padding; i++) {
        append(sink, " ", 1);
    }
}

static void write_string(text_sink *sink, const conversion *one, uint64_t address)
{
    const char *bytes = address != 0 ? (const char *)(uintptr_t)address : "(null)";
    size_t limit = one->precision >= 0 ? (size_t)one->precision : sink->capacity;
    write_padded(sink, one, bytes, strnlen(bytes, limit));
}

static bool write_conversion(text_sink *sink, const conversion *one, argument_reader *reader)
{
    bool wide = one->size == 'q';
    switch (one->letter) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X': {
        const char *size = wide ? "ll" : one->size == 'h' ? "h" : one->size == 'H' ? "hh" : "";
        write_value(sink, one, size, next_argument(reader, wide ? 8 : 4), false);
        return true;
    }
    case 'c': {
        char letter = (char)next_argument(reader, 4);
        write_padded(sink, one, &letter, 1);
        return true;
    }
    case 'p': write_value(sink, one, "", next_argument(reader, 8), false); return true;
    case 's': write_string(sink, one, next_argument(reader, 8)); return true;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A': write_value(sink, one, "", next_argument(reader, 8), true); return true;
    default: return false;
    }
}

/* Formats as device printf does. Returns the number of arguments taken. */
int32_t text_format(const char *format, const uint8_t *arguments, char *result, size_t capacity, size_t *length)
{
    argument_reader reader = {.bytes = arguments};
    text_sink sink = {.text = result, .capacity = capacity};
    while (*format != '\0') {
        const char *percent = strchr(format, '%');
        if (percent == NULL) {
            append(&sink, format, strlen(format));
            break;
        }
        append(&sink, format, (size_t)(percent - format));
        if (percent[1] == '%') {
            append(&sink, "%", 1);
            format = percent + 2;
            continue;
        }
        conversion one;
        format = read_conversion(percent + 1, &reader, &one);
        if (!write_conversion(&sink, &one, &reader)) {
            append(&sink, percent, (size_t)(format - percent));
        }
    }
    *length = sink.length;
    return reader.count;
}
