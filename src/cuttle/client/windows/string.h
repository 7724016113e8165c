#ifndef CUTTLE_WINDOWS_STRING_H
#define CUTTLE_WINDOWS_STRING_H
#include <stddef.h>
void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
int memcmp(const void *one, const void *other, size_t count);
size_t strlen(const char *text);
int strcmp(const char *one, const char *other);
int strncmp(const char *one, const char *other, size_t count);
char *strchr(const char *text, int character);
char *strstr(const char *text, const char *part);
char *strdup(const char *text);
#endif
