/* Formatting only: %s %d %i %u %x %X %c %%, with flag 0, width, precision (also *), and the lengths l, ll and z. */
#ifndef CUTTLE_WINDOWS_STDIO_H
#define CUTTLE_WINDOWS_STDIO_H
#include <stdarg.h>
#include <stddef.h>
int vsnprintf(char *to, size_t bytes, const char *format, va_list arguments);
int snprintf(char *to, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int sprintf(char *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
