# SPDX-License-Identifier: Apache-2.0
"""As much as the daemon ever shows, 64 offers, which change all the time: the page keeps nothing of earlier offers. How quickly it draws them is
measured by Tests/Bench/page."""

from web import WebTest


class Load(WebTest):
    def test_cards_out_of_view_are_not_laid_out(self):
        laid_out = self.open().driver.execute_async_script("""
            const done = arguments[0];
            (async () => {
                const { OfferList } = await import(new URL("offer-list.js", location.href));
                const list = new OfferList(() => {}, () => null);
                list.draw(Array.from({ length: 64 }, (_, index) => ({ id: String(index), name: `Die ${index}`, advertisedName: "", shared: false, hasImage: false })));
                document.querySelector("main").append(list.element);
                await new Promise(next => requestAnimationFrame(() => setTimeout(next, 100)));
                done([...list.element.querySelectorAll(".name")].filter(each => each.checkVisibility({ contentVisibilityAuto: true })).length);
            })();
        """)
        self.assertLess(laid_out, 40)

    def test_memory_is_flat(self):
        """Ten minutes' worth of changes, as fast as they can be drawn."""
        page = self.open()
        page.driver.set_script_timeout(240)
        made = page.driver.execute_async_script("""
            const done = arguments[0];
            const { GUARD, OfferList } = await import(new URL("offer-list.js", location.href));
            const list = new OfferList(() => {}, () => null);
            document.querySelector("main").append(list.element);
            let round = 0;
            const draw = () => {
                round += 1;
                // Some come, some go, all change.
                list.draw(Array.from({ length: 64 }, (_, index) => ({
                    id: String(index < 56 ? index : index + round), name: `Die ${index}`, advertisedName: `Die ${index} ${round}`,
                    rssi: -40 - (round + index) % 50, shared: false, hasImage: false })));
            };
            window.drawMany = count => new Promise(resolve => {
                const step = () => {
                    for (let each = 0; each < 10 && count > 0; each += 1, count -= 1) draw();
                    if (count > 0) setTimeout(step); else setTimeout(resolve, GUARD + 200);
                };
                step();
            });
            done(true);
        """.replace("const done = arguments[0];", "const done = arguments[0]; (async () => {").rstrip() + "})();")
        self.assertTrue(made)
        draw = lambda count: page.driver.execute_async_script("const done = arguments[1]; drawMany(arguments[0]).then(done)", count)

        def heap():
            page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
            counters = page.driver.execute_cdp_cmd("Memory.getDOMCounters", {})
            return page.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"], counters["nodes"], counters["jsEventListeners"]

        draw(600)
        before = heap()
        draw(6000)
        after = heap()
        print(f"memory, nodes, listeners: {before} after one minute's worth, {after} after eleven")
        self.assertLess(after[0], before[0] + 500_000)
        self.assertLess(after[1], before[1] + 1000)
        self.assertLess(after[2], before[2] + 200)
