/* Texture and surface references of modules. */
#ifndef CUTTLE_TEXTURE_REFERENCE_H
#define CUTTLE_TEXTURE_REFERENCE_H

#include "module.h"

void texture_references_forget(module *owner); /* the module is unloaded */

#endif
