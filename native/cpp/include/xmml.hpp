/* xMML: the C API. */
#ifndef XMML_H
#define XMML_H
#endif
