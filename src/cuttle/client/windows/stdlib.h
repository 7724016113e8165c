#ifndef CUTTLE_WINDOWS_STDLIB_H
#define CUTTLE_WINDOWS_STDLIB_H
#include <stddef.h>
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *memory, size_t bytes);
void free(void *memory);
/* The value stays where it is, also when the variable changes. */
char *getenv(const char *name);
long strtol(const char *text, char **end, int base);
unsigned long strtoul(const char *text, char **end, int base);
#endif
