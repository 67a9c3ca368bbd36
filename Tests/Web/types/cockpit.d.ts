// SPDX-License-Identifier: Apache-2.0
// The part of Cockpit's base1/cockpit.js that the page uses.
interface CockpitTarget {
    addEventListener(name: string, body: (event: any, ...details: any[]) => void): void;
}
interface CockpitClient extends CockpitTarget {
    call(path: string, interface_: string, method: string, args: unknown[], options?: { type?: string }): Promise<any[]>;
    subscribe(rule: Record<string, string>, body: (path: string, interface_: string, member: string, args: any[]) => void): void;
    close(problem?: string): void;
}
interface CockpitProcess extends Promise<string> {
    stream(body: (text: string) => void): void;
    input(text: string, isMore?: boolean): void;
}
interface Cockpit extends CockpitTarget {
    hidden: boolean;
    language?: string;
    language_direction?: string;
    location: { path: string[]; go(path: string | string[]): void };
    info: { version: string };
    transport: { control(command: string, options: object): void; wait(body: () => void): void };
    dbus(name: string | null, options: object): CockpitClient;
    spawn(command: string[], options?: object): CockpitProcess;
    user(): Promise<{ name: string; full_name: string }>;
    permission(options: object): CockpitTarget & { allowed: boolean | null };
    variant(type: string, value: unknown): { t: string; v: unknown };
    gettext(text: string): string;
    ngettext(one: string, many: string, count: number): string;
    format(text: string, ...values: unknown[]): string;
    jump(path: string): void;
}
declare const cockpit: Cockpit;

// Newer than the compiler's library.
interface Navigator {
    wakeLock?: { request(kind: "screen"): Promise<{ release(): void }> };
}
