// SPDX-License-Identifier: Apache-2.0
// Product images: untrusted bytes, decoded only by the browser, in an <img>, where an SVG runs no script and loads
// nothing.

const AT_ONCE = 2;

/** Images by their identifiers, each fetched when it is first asked for. Dispatches "loaded". */
export class Images extends EventTarget {
    #read;
    #addresses = new Map();
    #waiting = [];
    #running = 0;
    #isClosed = false;

    /** `read(id)` gives an image's bytes, in base64. */
    constructor(read) {
        super();
        this.#read = read;
    }

    /** An address for <img>; null until the image is fetched, which the first call starts. */
    address(id) {
        if (!this.#addresses.has(id)) {
            this.#addresses.set(id, null);
            this.#waiting.push(id);
            this.#next();
        }
        return this.#addresses.get(id);
    }

    close() {
        this.#isClosed = true;
        for (const address of this.#addresses.values()) if (address) URL.revokeObjectURL(address);
        this.#addresses.clear();
        this.#waiting = [];
    }

    async #next() {
        if (this.#running >= AT_ONCE || this.#waiting.length === 0) return;
        this.#running += 1;
        const id = this.#waiting.shift();
        const text = await this.#read(id).catch(() => null);
        this.#running -= 1;
        const type = text && imageType(text);
        if (type && !this.#isClosed) {
            const content = Uint8Array.from(atob(text), each => each.charCodeAt(0));
            this.#addresses.set(id, URL.createObjectURL(new Blob([content], { type })));
            this.dispatchEvent(new Event("loaded"));
        }
        this.#next();
    }
}

/** Shows an image in <img> once it has an address. */
export function showImage(image, address) {
    if (address && image.src !== address) {
        image.src = address;
        image.hidden = false;
    }
}

/** By the first bytes; null for another format. */
function imageType(text) {
    const start = atob(text.slice(0, 64));
    if (start.startsWith("\x89PNG")) return "image/png";
    if (start.startsWith("\xff\xd8\xff")) return "image/jpeg";
    if (start.startsWith("RIFF") && start.slice(8, 12) === "WEBP") return "image/webp";
    return start.trimStart().startsWith("<") ? "image/svg+xml" : null;
}
