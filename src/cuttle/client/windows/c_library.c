/* The part of the C library that the client uses, for Windows: the library is built without a C runtime, so that it is small,
 * built in a moment, and independent of the runtime that the program brings. */
#include "windows_api.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ memory */

/* One instruction each: the compiler would turn a loop into a call of the very function. */
void *memcpy(void *restrict to, const void *restrict from, size_t count) {
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(count) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t count) {
    if ((uintptr_t)to - (uintptr_t)from >= count) return memcpy(to, from, count);
    uint8_t *last_to = (uint8_t *)to + count - 1;
    const uint8_t *last_from = (const uint8_t *)from + count - 1;
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(last_to), "+S"(last_from), "+c"(count) : : "memory");
    return to;
}

void *memset(void *to, int value, size_t count) {
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(value) : "memory");
    return to;
}

int memcmp(const void *one, const void *other, size_t count) {
    const uint8_t *a = one, *b = other;
    for (size_t i = 0; i < count; i++) {
        if (a[i] != b[i]) return a[i] - b[i];
    }
    return 0;
}

void *malloc(size_t bytes) { return HeapAlloc(GetProcessHeap(), 0, bytes != 0 ? bytes : 1); }

void *calloc(size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    return HeapAlloc(GetProcessHeap(), HEAP_ZERO, all != 0 ? all : 1);
}

void *realloc(void *memory, size_t bytes) {
    if (memory == NULL) return malloc(bytes);
    return HeapReAlloc(GetProcessHeap(), 0, memory, bytes != 0 ? bytes : 1);
}

void free(void *memory) {
    if (memory != NULL) HeapFree(GetProcessHeap(), 0, memory);
}

/* ------------------------------------------------------------------------------------------------ arithmetic */

#if defined(__i386__)
/* 64-bit division, which compiled 32-bit code calls: one bit after the other, as it is rare here. */
static uint64_t divide(uint64_t number, uint64_t by, uint64_t *rest) {
    uint64_t quotient = 0, left = 0;
    for (int bit = 63; bit >= 0; bit--) {
        bool carry = left >> 63 != 0;
        left = left << 1 | (number >> bit & 1);
        quotient <<= 1;
        if (carry || left >= by) {
            left -= by;
            quotient |= 1;
        }
    }
    *rest = left;
    return quotient;
}

uint64_t __udivdi3(uint64_t number, uint64_t by) {
    uint64_t rest;
    return divide(number, by, &rest);
}

uint64_t __umoddi3(uint64_t number, uint64_t by) {
    uint64_t rest;
    divide(number, by, &rest);
    return rest;
}
#endif

/* ------------------------------------------------------------------------------------------------ stack */

/* Called by compiled code before it takes more than a page of stack: touches each page of it, from the top down, as Windows
 * wants it. The size is in the accumulator; all other registers stay. On 32-bit Windows the callee also takes the stack. */
#if defined(__x86_64__)
__asm__(".globl ___chkstk_ms\n"
        "___chkstk_ms:\n"
        "    pushq %rcx\n"
        "    pushq %rax\n"
        "    leaq 24(%rsp), %rcx\n"
        "1:  cmpq $0x1000, %rax\n"
        "    jb 2f\n"
        "    subq $0x1000, %rcx\n"
        "    orq $0, (%rcx)\n"
        "    subq $0x1000, %rax\n"
        "    jmp 1b\n"
        "2:  subq %rax, %rcx\n"
        "    orq $0, (%rcx)\n"
        "    popq %rax\n"
        "    popq %rcx\n"
        "    ret\n");
#else
__asm__(".globl __alloca\n"
        "__alloca:\n"
        "    pushl %ecx\n"
        "    leal 8(%esp), %ecx\n"
        "1:  cmpl $0x1000, %eax\n"
        "    jb 2f\n"
        "    subl $0x1000, %ecx\n"
        "    orl $0, (%ecx)\n"
        "    subl $0x1000, %eax\n"
        "    jmp 1b\n"
        "2:  subl %eax, %ecx\n"
        "    orl $0, (%ecx)\n"
        "    movl 4(%esp), %eax\n" /* return address */
        "    xchgl %ecx, %esp\n"
        "    pushl %eax\n"
        "    movl (%ecx), %ecx\n"
        "    ret\n");
#endif

/* ------------------------------------------------------------------------------------------------ text */

size_t strlen(const char *text) {
    size_t count = 0;
    while (((const volatile char *)text)[count] != 0) count++;
    return count;
}

int strncmp(const char *one, const char *other, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint8_t a = (uint8_t)one[i], b = (uint8_t)other[i];
        if (a != b) return a - b;
        if (a == 0) break;
    }
    return 0;
}

int strcmp(const char *one, const char *other) { return strncmp(one, other, SIZE_MAX); }

char *strchr(const char *text, int character) {
    for (;; text++) {
        if (*text == (char)character) return (char *)text;
        if (*text == 0) return NULL;
    }
}

char *strstr(const char *text, const char *part) {
    size_t count = strlen(part);
    for (; *text != 0 || count == 0; text++) {
        if (strncmp(text, part, count) == 0) return (char *)text;
    }
    return NULL;
}

char *strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

static unsigned digit_of(char character) {
    if (character >= '0' && character <= '9') return (unsigned)(character - '0');
    if (character >= 'a' && character <= 'f') return (unsigned)(character - 'a' + 10);
    if (character >= 'A' && character <= 'F') return (unsigned)(character - 'A' + 10);
    return 99;
}

static unsigned long read_number(const char *text, char **end, unsigned base, unsigned long most, bool *negative) {
    const char *at = text;
    unsigned long value = 0;
    bool any = false;
    while (*at == ' ' || (*at >= '\t' && *at <= '\r')) at++;
    *negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    if (base == 16 && at[0] == '0' && (at[1] | 32) == 'x' && digit_of(at[2]) < 16) at += 2;
    for (; digit_of(*at) < base; at++, any = true) {
        unsigned digit = digit_of(*at);
        value = value > (most - digit) / base ? most : value * base + digit;
    }
    if (end != NULL) *end = (char *)(any ? at : text);
    return value;
}

long strtol(const char *text, char **end, int base) {
    bool negative;
    long value = (long)read_number(text, end, (unsigned)base, 0x7fffffff, &negative);
    return negative ? -value : value;
}

unsigned long strtoul(const char *text, char **end, int base) {
    bool negative;
    unsigned long value = read_number(text, end, (unsigned)base, 0xffffffff, &negative);
    return negative ? 0 - value : value;
}

/* Values that were given out stay, as programs may hold them; the same value is given out again. */
typedef struct given_value {
    struct given_value *next;
    char *name, *value;
} given_value;

char *getenv(const char *name) {
    static given_value *given;
    DWORD room = GetEnvironmentVariableA(name, NULL, 0);
    if (room == 0) return NULL;
    char *value = malloc(room + 1);
    if (value == NULL || GetEnvironmentVariableA(name, value, room) >= room) {
        free(value);
        return NULL;
    }
    for (given_value *each = __atomic_load_n(&given, __ATOMIC_ACQUIRE); each != NULL; each = each->next) {
        if (strcmp(each->name, name) == 0 && strcmp(each->value, value) == 0) {
            free(value);
            return each->value;
        }
    }
    given_value *made = malloc(sizeof *made);
    if (made == NULL) return value;
    *made = (given_value){.name = strdup(name), .value = value, .next = __atomic_load_n(&given, __ATOMIC_ACQUIRE)};
    if (made->name == NULL) return value;
    while (!__atomic_compare_exchange_n(&given, &made->next, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    return value;
}

/* ------------------------------------------------------------------------------------------------ formatting */

typedef struct output {
    char *to;
    size_t room, count;
} output;

static void put(output *out, char character) {
    if (out->count + 1 < out->room) out->to[out->count] = character;
    out->count++;
}

static void put_number(output *out, uint64_t value, unsigned base, bool upper, bool negative, unsigned width, char fill) {
    char digits[24];
    unsigned count = 0;
    do {
        unsigned digit = (unsigned)(value % base);
        digits[count++] = (char)(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10);
        value /= base;
    } while (value != 0);
    unsigned all = count + negative;
    if (negative && fill == '0') put(out, '-');
    for (; all < width; all++) put(out, fill);
    if (negative && fill != '0') put(out, '-');
    while (count != 0) put(out, digits[--count]);
}

int vsnprintf(char *to, size_t bytes, const char *format, va_list arguments) {
    output out = {to, bytes, 0};
    for (; *format != 0; format++) {
        if (*format != '%') {
            put(&out, *format);
            continue;
        }
        char fill = ' ';
        unsigned width = 0, length = 0;
        size_t precision = SIZE_MAX;
        format++;
        if (*format == '0') fill = *format++;
        for (; *format >= '0' && *format <= '9'; format++) width = width * 10 + (unsigned)(*format - '0');
        if (*format == '.') {
            format++;
            if (*format == '*') {
                precision = (size_t)va_arg(arguments, int);
                format++;
            } else {
                for (precision = 0; *format >= '0' && *format <= '9'; format++) precision = precision * 10 + (size_t)(*format - '0');
            }
        }
        for (; *format == 'l' || *format == 'z'; format++) length += *format == 'z' ? sizeof(size_t) / 4 : 1;
        bool wide = length >= 2; /* C's long has 32 bits on Windows */
        switch (*format) {
        case 's': {
            const char *text = va_arg(arguments, const char *);
            for (size_t i = 0; i < precision && text[i] != 0; i++) put(&out, text[i]);
            break;
        }
        case 'c': put(&out, (char)va_arg(arguments, int)); break;
        case 'd':
        case 'i': {
            int64_t value = wide ? va_arg(arguments, int64_t) : va_arg(arguments, int32_t);
            put_number(&out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10, false, value < 0, width, fill);
            break;
        }
        case 'u':
        case 'x':
        case 'X': {
            uint64_t value = wide ? va_arg(arguments, uint64_t) : va_arg(arguments, uint32_t);
            put_number(&out, value, *format == 'u' ? 10 : 16, *format == 'X', false, width, fill);
            break;
        }
        default: put(&out, *format);
        }
    }
    if (bytes != 0) to[out.count < bytes ? out.count : bytes - 1] = 0;
    return (int)out.count;
}

int snprintf(char *to, size_t bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(to, bytes, format, arguments);
    va_end(arguments);
    return count;
}

int sprintf(char *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(to, SIZE_MAX / 2, format, arguments);
    va_end(arguments);
    return count;
}
