/* Reading of image metadata: just enough JSON for text that our own linker wrote. */
#include "executor.h"

#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *text)
{
    while (*text == ' ' || *text == '\n' || *text == '\t' || *text == '\r') {
        text++;
    }
    return text;
}

static const char *skip_string(const char *text)
{
    for (text++; *text != '\0' && *text != '"'; text++) {
        if (*text == '\\' && text[1] != '\0') {
            text++;
        }
    }
    return *text == '"' ? text + 1 : text;
}

/* Behind the value that starts here. */
static const char *skip_value(const char *text)
{
    text = skip_space(text);
    if (*text == '"') {
        return skip_string(text);
    }
    if (*text != '{' && *text != '[') {
        while (*text != '\0' && strchr(",]} \n\t\r", *text) == NULL) {
            text++;
        }
        return text;
    }
    int depth = 0;
    do {
        if (*text == '"') {
            text = skip_string(text);
            continue;
        }
        depth += *text == '{' || *text == '[';
        depth -= *text == '}' || *text == ']';
        text++;
    } while (depth > 0 && *text != '\0');
    return text;
}

const char *json_find(const char *object, const char *key)
{
    const char *text = skip_space(object);
    size_t length = strlen(key);
    if (*text != '{') {
        return NULL;
    }
    text = skip_space(text + 1);
    while (*text == '"') {
        const char *end = skip_string(text);
        bool found = (size_t)(end - text) == length + 2 && memcmp(text + 1, key, length) == 0;
        text = skip_space(end);
        if (*text != ':') {
            return NULL;
        }
        text = skip_space(text + 1);
        if (found) {
            return text;
        }
        text = skip_space(skip_value(text));
        if (*text == ',') {
            text = skip_space(text + 1);
        }
    }
    return NULL;
}

bool json_unsigned(const char *value, uint64_t *result)
{
    if (value == NULL || *value < '0' || *value > '9') {
        return false;
    }
    *result = strtoull(value, NULL, 10);
    return true;
}

bool json_true(const char *value)
{
    return value != NULL && *value == 't';
}

bool json_string(const char *value, char *result, size_t capacity)
{
    if (value == NULL || *value != '"') {
        return false;
    }
    size_t length = 0;
    for (value++; *value != '\0' && *value != '"' && length + 1 < capacity; value++) {
        if (*value == '\\' && value[1] != '\0') {
            value++;
        }
        result[length++] = *value;
    }
    result[length] = '\0';
    return true;
}

const char *json_first(const char *array)
{
    if (array == NULL || *array != '[') {
        return NULL;
    }
    array = skip_space(array + 1);
    return *array == ']' || *array == '\0' ? NULL : array;
}

const char *json_next(const char *element)
{
    element = skip_space(skip_value(element));
    return *element == ',' ? skip_space(element + 1) : NULL;
}
