// Catches what is written to a file descriptor, so that a program can check what the device printed.
#pragma once

#include <unistd.h>

#include "check.h"

class Capture {
  public:
    explicit Capture(FILE* stream) : stream_(stream), file_(std::tmpfile())
    {
        CHECK(file_ != nullptr);
        std::fflush(stream_);
        saved_ = dup(fileno(stream_));
        dup2(fileno(file_), fileno(stream_));
    }

    // Ends the capture; the text stays valid until the object goes.
    const char* finish()
    {
        std::fflush(stream_);
        dup2(saved_, fileno(stream_));
        close(saved_);
        std::fseek(file_, 0, SEEK_SET);
        size_t length = std::fread(text_, 1, sizeof text_ - 1, file_);
        text_[length] = '\0';
        std::fclose(file_);
        return text_;
    }

  private:
    FILE* stream_;
    FILE* file_;
    int saved_ = -1;
    char text_[8192];
};
