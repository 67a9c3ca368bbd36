// SPDX-License-Identifier: Apache-2.0
// libsodium as a Clang module: X25519, ChaCha20-Poly1305 and SHA-256 for the door's handshake.
#pragma once
#include <sodium.h>
