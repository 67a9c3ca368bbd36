// SPDX-License-Identifier: Apache-2.0
// Each client of libmosquitto has a pair of sockets, by which it wakes a thread that it does not have here. Without
// them ten thousand clients need a third of the descriptors, and a system's usual limit suffices.

import Glibc

/// Takes the place of the system's function for libmosquitto, which does without a pair then.
@_cdecl("socketpair") public func noSocketPair(
    _ domain: Int32, _ type: Int32, _ protocolNumber: Int32, _ pair: UnsafeMutablePointer<Int32>?
) -> Int32 {
    errno = EMFILE
    return -1
}

/// The descriptors that a client needs: the linkers of debug builds do not let the function above take that place.
var descriptorsOfClient: Int {
    let own: @convention(c) (Int32, Int32, Int32, UnsafeMutablePointer<Int32>?) -> Int32 = noSocketPair
    return dlsym(nil, "socketpair") == unsafeBitCast(own, to: UnsafeMutableRawPointer.self) ? 1 : 3
}
