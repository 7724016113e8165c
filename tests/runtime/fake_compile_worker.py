"""A compile worker for tests: the kernel's name says what it does with a request."""

import os
import sys
import time

from cuttle.runtime import compile_worker


class FakeCompiler(compile_worker.Compiler):
    def compile(self, digest, kernel, options):  # type: ignore[no-untyped-def]
        if kernel == "crash":
            os.abort()
        if kernel == "exit":
            os._exit(3)
        if kernel == "hang":
            time.sleep(60)
        if kernel == "noise":
            print("a library talks on stdout")
            sys.stdout.flush()
        if kernel == "raise":
            raise KeyError("something unforeseen")
        return kernel.encode() + self._texts[digest]


compile_worker.Compiler = FakeCompiler  # type: ignore[misc]
compile_worker.serve(int(sys.argv[1]), int(sys.argv[2]))
