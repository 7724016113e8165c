/* Variables that a program (or a script around it) sets for a Python of its own, and which would keep ours from starting. */
#ifndef CUTTLE_PYTHON_VARIABLES_H
#define CUTTLE_PYTHON_VARIABLES_H

static const char *const python_variables[] = {
    "PYTHONHOME=",  "PYTHONPLATLIBDIR=", "PYTHONSTARTUP=", "PYTHONINSPECT=", "PYTHONOPTIMIZE=",          "PYTHONWARNINGS=",    "PYTHONDEBUG=",
    "PYTHONVERBOSE=", "PYTHONDEVMODE=",  "PYTHONMALLOC=",  "PYTHONPROFILEIMPORTTIME=", "PYTHONTRACEMALLOC=", "PYTHONEXECUTABLE=", "PYTHONSAFEPATH="};

#endif
